package webhook

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// Options configure a [Webhook].
type Options struct {
	// URL gets the requests. It is https, unless Private is set. Redirects are not followed.
	//
	// Default: none; it must be set.
	URL string
	// Secrets sign the requests, each of them: 24 to 64 random bytes in base64 behind "whsec_". To replace one, have two
	// for a while.
	//
	// Default: none; there must be one.
	Secrets []string
	// Private admits a URL without TLS, and addresses that the Internet does not have: of this machine, of a private
	// network and of the link.
	//
	// Default: they are refused.
	Private bool

	// Topics are those whose topic.occupied and topic.vacated are sent: names, and beginnings of names followed by "*".
	//
	// Default: none.
	Topics []string
	// Members has member.joined and member.left sent, too, for what [router.Context.Join] has listed in these topics. A
	// user joins with the first connection and leaves with the last.
	//
	// Default: they are not sent.
	Members bool
	// Connections has connection.opened and connection.closed sent.
	//
	// Default: they are not sent.
	Connections bool
	// Grace is how long something has not been true before that is sent: a page that is loaded again has neither left nor
	// joined. At most 1 min.
	//
	// Default: 2 s. Negative: none.
	Grace time.Duration

	// Timeout bounds a request.
	//
	// Default: 10 s.
	Timeout time.Duration
	// Keep is how long an event of Send waits, and how long a request is repeated. Then they are dropped, logged and
	// counted. Of both, older ones are dropped for MaxQueued.
	//
	// Default: 24 h.
	Keep time.Duration
	// MaxQueued is how many events of Send wait at most; all of them have at most 64 MiB.
	//
	// Default: 100,000.
	MaxQueued int

	// Name distinguishes several webhooks of a backend. At most 100 bytes.
	//
	// Default: "webhook".
	Name string
	// Logger gets a line when events cannot be sent, with the cause, another one when they can, and one for what is
	// dropped.
	//
	// Default: slog.Default().
	Logger *slog.Logger
	// OnOutage is called at the same times as Logger, for the component "webhook", by one goroutine.
	//
	// Default: none.
	OnOutage func(errors.Outage)

	transport http.RoundTripper // of tests; nil: the network
}

const mostGrace = time.Minute

func (o Options) withDefaults() (Options, error) {
	o.Name = cmp.Or(o.Name, "webhook")
	o.Grace = cmp.Or(o.Grace, 2*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Keep = cmp.Or(o.Keep, 24*time.Hour)
	o.MaxQueued = cmp.Or(o.MaxQueued, 100_000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	switch {
	case len(o.Name) > maxName:
		return o, fmt.Errorf("webhook: Options.Name has %d bytes; give it at most %d", len(o.Name), maxName)
	case o.Grace > mostGrace:
		return o, fmt.Errorf("webhook: Options.Grace is %v; set at most %v", o.Grace, mostGrace)
	case o.Timeout < 0 || o.MaxQueued < 1:
		return o, fmt.Errorf("webhook: Options.Timeout is %v and MaxQueued %d; set both to more than 0, or leave them out",
			o.Timeout, o.MaxQueued)
	case o.Keep < pubsub.IDWindow:
		return o, fmt.Errorf("webhook: Options.Keep is %v; set at least %v", o.Keep, pubsub.IDWindow)
	case o.Members && len(o.Topics) == 0:
		return o, fmt.Errorf("webhook: Options.Members is set without Topics; set those whose members are to be sent")
	}
	return o, nil
}

// queue is how much of the events of Send is kept.
func (o Options) queue() pubsub.History {
	return pubsub.History{Messages: o.MaxQueued, Bytes: 64 << 20, Age: o.Keep}
}
