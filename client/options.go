package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Options configure a [Client]. The zero value works: no token, reconnects for ever.
type Options struct {
	// Token returns the token of the next attempt to connect, which is sent as Authorization:
	// Bearer. It is called before each attempt and before the identity expires; its context ends
	// with ConnectTimeout. After a failure it is called again, with backoff, unless the error has the
	// code UNAUTHENTICATED or PERMISSION_DENIED, which ends the client. So does a token that the server has refused, if
	// it is returned five times in a row: a cache may keep it for some seconds.
	//
	// Default: none; connections are not authenticated, unless Header does it.
	Token func(context.Context) (string, error)

	// Header is sent with each handshake.
	//
	// Default: none.
	Header http.Header

	// HTTPClient makes the handshakes: it has the proxy, the TLS configuration, and in tests a server in memory. An
	// HTTP proxy is asked for a tunnel to the server, with and without TLS. Redirects are not followed, as in browsers.
	//
	// Default: http.DefaultClient.
	HTTPClient *http.Client

	// Setup is called by Dial before the first connection is opened. Handlers that it registers with On
	// and Answer get all that the server sends, from the first message on.
	//
	// Default: none.
	Setup func(*Client)

	// ConnectTimeout is the time for one attempt to connect, with the call of Token.
	//
	// Default: 10 s.
	ConnectTimeout time.Duration

	// MinBackoff and MaxBackoff bound the pause between attempts to connect: the n-th pause is chosen at
	// random between 0 and MinBackoff·2ⁿ, at most MaxBackoff. It is longer if the server says so.
	//
	// Default: 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration

	// PingInterval is how often the server is pinged. PongTimeout is the time for its answer, and for
	// the network to take a message; then the connection counts as dead, and another one is opened.
	//
	// Default: 25 s and 10 s. A negative PingInterval: never.
	PingInterval, PongTimeout time.Duration

	// MaxQueued and MaxQueuedBytes bound the messages that wait to be sent, and separately the events that
	// wait for their handlers. While the latter are too many, the connection is not read.
	//
	// Default: 1,024 and 4 MiB.
	MaxQueued, MaxQueuedBytes int

	// WaitForRoom lets a message wait until there is room for it in the queue, or its context ends.
	//
	// Default: it fails with ErrQueueFull.
	WaitForRoom bool

	// MaxMessage is the size in bytes of the largest message that is accepted from the server. A larger one is skipped:
	// a request whose answer it is fails with RESOURCE_EXHAUSTED, OnGap is called for an event of a topic with history,
	// with the reason "tooLarge", and OnError for any other.
	//
	// Default: 4 MiB.
	MaxMessage int

	// OnEvent is called for each event of a type without a handler, by the goroutine of the handlers, in the order of
	// all events: for tools that show what comes.
	//
	// Default: these events are dropped.
	OnEvent func(ctx context.Context, typ string, payload jsontext.Value, meta Meta)

	// OnGap is called when events of a topic may have been missed, in the order of the events.
	//
	// Default: it is logged.
	OnGap func(Gap)

	// OnError is called for what concerns no call: the server refused an event, or a message of the
	// server could not be read or decoded. It has the type of the message, if that is known. It is
	// called in the order of the events.
	//
	// Default: it is logged.
	OnError func(typ string, err error)

	// Logger gets what no hook gets, and lost connections.
	//
	// Default: slog.Default().
	Logger *slog.Logger
}

// withDefaults returns a copy with the defaults, or an error that says what to change.
func (o Options) withDefaults() (Options, error) {
	direct := *cmp.Or(o.HTTPClient, http.DefaultClient)
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTPClient = &direct
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 10*time.Second)
	o.MinBackoff = cmp.Or(o.MinBackoff, 500*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, max(30*time.Second, o.MinBackoff))
	o.PingInterval = cmp.Or(o.PingInterval, 25*time.Second)
	o.PongTimeout = cmp.Or(o.PongTimeout, 10*time.Second)
	o.MaxQueued = cmp.Or(o.MaxQueued, 1024)
	o.MaxQueuedBytes = cmp.Or(o.MaxQueuedBytes, 4<<20)
	o.MaxMessage = cmp.Or(o.MaxMessage, 4<<20)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	switch {
	case o.ConnectTimeout < 0 || o.PongTimeout < 0:
		return o, fmt.Errorf("client: Options.ConnectTimeout is %v and PongTimeout %v; set positive times (0 for 10s)", o.ConnectTimeout, o.PongTimeout)
	case o.MinBackoff < 0 || o.MaxBackoff < o.MinBackoff:
		return o, fmt.Errorf("client: Options.MinBackoff is %v and MaxBackoff %v; set positive times, the first not above the second (0 for 500ms and 30s)", o.MinBackoff, o.MaxBackoff)
	case o.MaxQueued < 0 || o.MaxQueuedBytes < 0 || o.MaxMessage < 0:
		return o, fmt.Errorf("client: Options.MaxQueued, MaxQueuedBytes or MaxMessage is negative; set positive numbers (0 for 1024, 4 MiB and 4 MiB)")
	}
	if o.OnGap == nil {
		o.OnGap = func(g Gap) {
			o.Logger.Warn("wskit client: events may have been missed", "topic", g.Topic, "reason", g.Reason)
		}
	}
	if o.OnError == nil {
		o.OnError = func(typ string, err error) {
			o.Logger.Warn("wskit client: a message failed", "type", typ, "error", err)
		}
	}
	return o, nil
}

// MessageOptions configure one message.
type MessageOptions struct {
	// With an IdempotencyKey, the server handles the message once, however often it is sent, if the
	// server is configured for it (router.Options.Idempotency) and the client has a user. A request
	// with a key that was written when its connection broke is sent again over the next one, and so
	// is one whose answer is ABORTED. The key has at most 128 bytes and belongs to one message: use
	// rand.Text(), or the id of what the message changes.
	//
	// Default: none; the message is written once at most.
	IdempotencyKey string

	// With WaitOnLimit, a message that a limit refuses waits as long as the server says, and is sent again.
	// Messages that were not sent before it wait, too, so that the order is kept. A wait that the
	// context does not allow fails at once.
	//
	// Default: the refusal is the answer.
	WaitOnLimit bool

	// Meta has members of the application for the meta of the message, such as a trace id. See
	// PROTOCOL.md for their bounds.
	//
	// Default: none.
	Meta map[string]any
}
