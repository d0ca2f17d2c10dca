package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/clienttest"
	"github.com/wskit/wskit/internal/poll"
)

// scenarios are those of clients/scenarios.json, which other clients pass, too.
var scenarios = map[string]func(*testing.T){
	"connect":                          connectScenario,
	"refuse":                           refuseScenario,
	"expire":                           expireScenario,
	"renew":                            renewScenario,
	"request":                          requestScenario,
	"abort":                            abortScenario,
	"progress":                         progressScenario,
	"time out":                         timeOutScenario,
	"flood and wait":                   floodAndWaitScenario,
	"flood and fail":                   floodAndFailScenario,
	"follow limits":                    followLimitsScenario,
	"server restart":                   serverRestartScenario,
	"drain with advice":                drainScenario,
	"redis away":                       redisAwayScenario,
	"resume":                           resumeScenario,
	"gap":                              gapScenario,
	"keep":                             keepScenario,
	"inbox":                            inboxScenario,
	"run":                              runScenario,
	"ask":                              askScenario,
	"idempotent retry":                 idempotentRetryScenario,
	"unknown outcome":                  unknownOutcomeScenario,
	"never written":                    neverWrittenScenario,
	"slow network":                     slowNetworkScenario,
	"cut at byte n of each frame down": func(t *testing.T) { cutScenario(t, "down") },
	"cut at byte n of each frame up":   func(t *testing.T) { cutScenario(t, "up") },
	"duplicate answers":                duplicateAnswersScenario,
	"unknown types":                    unknownTypesScenario,
	"malformed frames from the server": malformedScenario,
	"token that cannot be fetched":     tokenScenario,
	"door full":                        doorFullScenario,
	"ban":                              banScenario,
	"zombie":                           zombieScenario,
	"zombie without traffic":           idleZombieScenario,
	"queue overflow":                   queueOverflowScenario,
	"order kept":                       orderScenario,
	"storm with jitter":                stormScenario,
	"kicked by code":                   kickedScenario,
	"advice that makes no sense":       senselessAdviceScenario,
	"close by the application":         closeScenario,
	"refused for ever by TCP":          refusedByTCPScenario,
	"handshake that hangs":             hangingHandshakeScenario,
	"large frames":                     largeFramesScenario,
	"handlers that fail":               failingHandlersScenario,
	"hostile server":                   hostileServerScenario,
}

func TestScenarios(t *testing.T) {
	file, err := os.ReadFile("../clients/scenarios.json")
	ok(t, err)
	var all []struct {
		Name    string
		Browser bool
	}
	ok(t, json.Unmarshal(file, &all))
	for _, s := range all {
		if s.Browser {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			run := scenarios[s.Name]
			if run == nil {
				t.Fatal("there is no test of this scenario")
			}
			if s.Name != "hostile server" { // which measures memory
				t.Parallel()
			}
			run(t)
		})
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// payload is that of all messages of these scenarios.
type payload = clienttest.Payload

// inbox records what the hooks and the handler of "said" get, in order.
type inbox struct {
	mu     sync.Mutex
	seen   []string // "said 3", "gap trimmed", "error …"
	errors []error
}

func (in *inbox) add(text string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.seen = append(in.seen, text)
}

func (in *inbox) all() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.seen)
}

func (in *inbox) failures() []error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.errors)
}

// expect waits until exactly this was received.
func (in *inbox) expect(t testing.TB, want ...string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("received %v, want %v", in.all(), want)
		}
	}()
	poll.Until(t, "what is expected is received", func() bool { return slices.Equal(in.all(), want) })
}

func said(from, to int) (texts []string) {
	for n := from; n <= to; n++ {
		texts = append(texts, fmt.Sprint("said ", n))
	}
	return texts
}

// actor is a client of a scenario.
type actor struct {
	*client.Client
	*inbox
	t *testing.T
}

// act connects a client with tokens of a user.
func act(t *testing.T, s *clienttest.Server, user string, o client.Options) *actor {
	t.Helper()
	a := newActor(t, &o)
	c, err := client.Dial(within(t), s.URL, options(t, s, user, o))
	ok(t, err)
	a.Client = c
	t.Cleanup(func() { a.close() })
	return a
}

// dialling is act, and does not wait until the client is connected.
func dialling(t *testing.T, s *clienttest.Server, user string, o client.Options) (a *actor, connected <-chan error) {
	t.Helper()
	a = newActor(t, &o)
	o = options(t, s, user, o)
	dialled := make(chan error, 1)
	go func() {
		var err error
		a.Client, err = client.Dial(within(t), s.URL, o)
		dialled <- err
	}()
	return a, dialled
}

// close closes the client at once.
func (a *actor) close() {
	ctx, cancel := context.WithTimeout(context.Background(), poll.Guard)
	defer cancel()
	if a.State().Phase != client.Closed {
		if err := a.Close(ctx); err != nil {
			a.t.Errorf("the client does not close: %v", err)
		}
	}
}

func newActor(t *testing.T, o *client.Options) *actor {
	a := &actor{inbox: new(inbox), t: t}
	setup := o.Setup
	o.Setup = func(c *client.Client) {
		client.On(c, "said", func(_ context.Context, p payload, _ client.Meta) { a.add(fmt.Sprint("said ", p.N)) })
		if setup != nil {
			setup(c)
		}
	}
	o.OnGap = func(g client.Gap) { a.add("gap " + g.Reason) }
	o.OnError = func(_ string, err error) {
		a.inbox.mu.Lock()
		defer a.inbox.mu.Unlock()
		a.errors = append(a.errors, err)
	}
	return a
}

// options has the tokens of a user, and no time lost between attempts.
func options(t *testing.T, s *clienttest.Server, user string, o client.Options) client.Options {
	if o.Token == nil && user != "" {
		o.Token = func(context.Context) (string, error) { return s.NewToken(user, 0), nil }
	}
	if o.MinBackoff == 0 {
		o.MinBackoff, o.MaxBackoff = 10*time.Millisecond, 100*time.Millisecond
	}
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	o.HTTPClient = &http.Client{Transport: transport}
	return o
}

// fetch is Options.Token by GET /token.
func fetch(s *clienttest.Server) func(context.Context) (string, error) {
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Control+"/token?user=ann", nil)
		if err != nil {
			return "", err
		}
		res, err := hc.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return "", errors.New(res.Status)
		}
		var body struct{ Token string }
		err = json.NewDecoder(res.Body).Decode(&body)
		return body.Token, err
	}
}

func (a *actor) request(typ string, p payload, o ...client.MessageOptions) payload {
	a.t.Helper()
	reply, err := client.Request[payload](within(a.t), a.Client, typ, p, o...)
	if err != nil {
		a.t.Fatalf("%s %+v: %v", typ, p, err)
	}
	return reply
}

// start sends a request and returns a channel with its error.
func (a *actor) start(ctx context.Context, typ string, p payload, o ...client.MessageOptions) <-chan error {
	call := client.Follow[payload, payload](ctx, a.Client, typ, p, o...)
	failed := make(chan error, 1)
	go func() {
		_, err := call.Reply()
		failed <- err
	}()
	return failed
}

func (a *actor) awaitPhase(phase client.Phase) client.State {
	a.t.Helper()
	s, err := a.Wait(within(a.t), func(s client.State) bool { return s.Phase == phase })
	if err != nil {
		a.t.Fatalf("the client is never %v: %v, %+v", phase, err, s)
	}
	return s
}

// awaitConnections waits until the client is connected for the n-th time.
func (a *actor) awaitConnections(n int) client.State {
	a.t.Helper()
	s, err := a.Wait(within(a.t), func(s client.State) bool { return s.Phase == client.Connected && s.Connections >= n })
	if err != nil {
		a.t.Fatalf("the client does not connect for the %dth time: %v, %+v", n, err, s)
	}
	return s
}

func (a *actor) join(topic string) {
	a.t.Helper()
	a.request("join", payload{Topic: topic})
}

func expectCode(t testing.TB, err error, code errors.Code) *errors.Error {
	t.Helper()
	e, is := errors.AsType[*errors.Error](err)
	if !is || e.Code != code {
		t.Fatalf("the error is %v, want %s", err, code)
	}
	return e
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}

// received returns the frames of a type that clients have sent.
func received(l clienttest.Log, typ string) (frames []clienttest.Frame) {
	for _, f := range l.Received {
		if f.Type == typ {
			frames = append(frames, f)
		}
	}
	return frames
}
