package router_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type (
	confirm struct {
		Text string `json:"text"`
	}
	confirmed struct {
		Yes  bool   `json:"yes"`
		Note string `json:"note,omitempty" validate:"max=5"`
	}
)

// asking serves the request "ask", whose handler asks the client to confirm and replies with what
// came of it, and "hold", a handler that waits until the test releases it.
type asking struct {
	*socketServer
	confirm router.Question[confirm, confirmed]
	release chan struct{}
	faults  faults
	conns   chan *router.Conn
}

// outcome is what came of a question, in one line.
func outcome(a confirmed, err error) string {
	if err != nil {
		return string(errors.CodeOf(err))
	}
	return fmt.Sprint(a.Yes, a.Note)
}

func newAsking(t *testing.T, opts router.Options, question router.QuestionOptions) *asking {
	t.Helper()
	s := &asking{release: make(chan struct{}), conns: make(chan *router.Conn, 100)}
	opts.OnOpen = func(c *router.Conn) error { s.conns <- c; return nil }
	opts.OnError = s.faults.add
	s.socketServer = serveSocket(t, opts, func(r *router.Router) {
		s.confirm = router.DeclareQuestion[confirm, confirmed](r, "confirm", question)
		ask := func(c *router.Context, m said) (said, error) {
			return said{outcome(s.confirm.Ask(c, c.Conn(), confirm(m)))}, nil
		}
		askEvent := func(c *router.Context, m said) error {
			_, err := s.confirm.Ask(c, c.Conn(), confirm(m))
			return err
		}
		router.RPC(r, "ask", ask)
		router.RPC(r, "ask beside", ask, router.RouteOptions{Concurrent: true})
		router.On(r, "ask in an event", askEvent)
		router.On(r, "ask in an event beside", askEvent, router.RouteOptions{Concurrent: true})
		router.RPC(r, "ask later", func(c *router.Context, m said) (said, error) {
			<-s.release
			ctx, cancel := context.WithTimeout(c, time.Hour) // made from the handler's
			defer cancel()
			return said{outcome(s.confirm.Ask(ctx, c.Conn(), confirm(m)))}, nil
		})
		router.RPC(r, "hold", func(*router.Context, said) (said, error) { <-s.release; return said{"held"}, nil })
		router.RPC(r, "echo beside", func(_ *router.Context, m said) (said, error) { return m, nil }, router.RouteOptions{Concurrent: true})
	})
	return s
}

// answerFrame answers a question with what is in place of the payload.
func answerFrame(id, rest string) []byte {
	return textFrame(fmt.Sprintf(`{"type":"$ws:answer","meta":{"correlationId":%q},%s}`, id, rest))
}

func yes(id string) []byte { return answerFrame(id, `"payload":{"yes":true}`) }

// await returns what comes of a goroutine.
func await[T any](t *testing.T, done <-chan T) T {
	t.Helper()
	return poll.Receive(t, done, "something comes of the goroutine")
}

// question reads the next frame, which has to be a question, and returns its id.
func (p *peer) question() (id string) {
	p.t.Helper()
	f, err := p.read()
	if err != nil {
		p.t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscanf(string(f.payload), `{"type":"confirm","meta":{"correlationId":"$ws:%d"}`, &n); err != nil {
		p.t.Fatalf("got %s, want a question", f.payload)
	}
	return fmt.Sprintf("$ws:%d", n)
}

func (s *asking) noFaults() {
	s.t.Helper()
	if all := s.faults.String(); all != "" {
		s.t.Errorf("faults: %s", all)
	}
}

func TestAskingAClient(t *testing.T) {
	t.Parallel()
	s := newAsking(t, router.Options{}, router.QuestionOptions{})
	p := s.dial()
	for _, typ := range []string{"ask", "ask beside"} {
		p.write(request("1", typ))
		p.write(yes(p.question()))
		p.expect("reply 1 true")
	}
	p.write(request("", "ask in an event"), echo("2", "behind"))
	p.write(yes(p.question()))
	p.expect("reply 2 behind")

	conn := <-s.conns // from outside of a handler, several at once
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			a, err := s.confirm.Ask(t.Context(), conn, confirm{fmt.Sprint(n)})
			if err != nil || a.Note != fmt.Sprint(n) {
				t.Errorf("question %d is answered %+v, %v", n, a, err)
			}
		})
	}
	for range 10 {
		f, _ := p.read()
		var id, n int
		if _, err := fmt.Sscanf(string(f.payload), `{"type":"confirm","meta":{"correlationId":"$ws:%d"},"payload":{"text":"%d"}}`, &id, &n); err != nil {
			t.Fatalf("got %s", f.payload)
		}
		p.write(answerFrame(fmt.Sprint("$ws:", id), fmt.Sprintf(`"payload":{"note":"%d"}`, n)))
	}
	all.Wait()
	s.noFaults()
	p.bye()
	s.recovered()
}

// A client can answer with an error, and with anything else. Nothing of it is a fault of the
// server or more than a short text.
func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	var refused refusalLog
	s := newAsking(t, router.Options{OnRefused: refused.hook}, router.QuestionOptions{})
	p := s.dial()
	conn := <-s.conns
	long := strings.Repeat("ä", 5000)
	for _, tc := range []struct {
		answer string
		code   errors.Code
		text   string
		frame  string // what the client gets
	}{
		{`"error":{"code":"CANCELLED","message":"not now"}`, errors.Cancelled, "not now", ""},
		{`"error":{"code":"MY_OWN_2","message":"no"}`, "MY_OWN_2", "no", ""},
		{`"payload":null,"error":{"code":"NOT_FOUND","message":"x","details":{"a":1},"other":2}`, errors.NotFound, "x", ""},
		{`"error":{"code":"INTERNAL","message":"boom"}`, "UNKNOWN", "boom", ""},
		{`"error":{"code":"","message":"x"}`, "UNKNOWN", "x", ""},
		{`"error":{"code":"OK","message":"x"}`, "UNKNOWN", "x", ""},
		{`"error":{}`, "UNKNOWN", "", ""},
		{`"error":{"code":"two\nlines","message":"x"}`, "UNKNOWN", "x", ""},
		{`"error":{"code":"` + strings.Repeat("A", 65) + `","message":"x"}`, "UNKNOWN", "x", ""},
		{`"error":{"code":"ABORTED","message":"` + long + `"}`, errors.Aborted, long[:1024], ""},
		{`"error":"no"`, "UNKNOWN", "the client has answered with an error that does not decode", ""},
		{`"error":{"code":7}`, "UNKNOWN", "the client has answered with an error that does not decode", ""},
		{`"payload":{"yes":"maybe"}`, errors.InvalidArgument, "the answer of the client is not valid", "ERROR INVALID_ARGUMENT"},
		{`"payload":{"note":"too long"}`, errors.InvalidArgument, "the answer of the client is not valid", "ERROR INVALID_ARGUMENT"},
		{`"payload":[]`, errors.InvalidArgument, "the answer of the client is not valid", "ERROR INVALID_ARGUMENT"},
		{`"payload":null`, errors.InvalidArgument, "the answer of the client is not valid", "ERROR INVALID_ARGUMENT"},
		{`"error":null`, errors.InvalidArgument, "the answer of the client is not valid", "ERROR INVALID_ARGUMENT"},
		{`"x":1`, errors.InvalidArgument, "the answer of the client is not valid", "ERROR INVALID_ARGUMENT"},
	} {
		done := make(chan error, 1)
		go func() { _, err := s.confirm.Ask(t.Context(), conn, confirm{}); done <- err }()
		p.write(answerFrame(p.question(), tc.answer))
		err := await(t, done)
		e, ok := errors.AsType[*errors.Error](err)
		if !ok || e.Code != tc.code || e.Message != tc.text {
			t.Errorf("%.60s: got %.200v, want %s %.60q", tc.answer, err, tc.code, tc.text)
		}
		if tc.frame != "" {
			p.expect(tc.frame)
		}
	}
	const errorsOfClients, invalid = 12, 6
	if n := outcomesOf(t, s.r.Stats(), "$ws:answer"); len(n) != 2 || n["OK"] != errorsOfClients || n[errors.InvalidArgument] != invalid {
		t.Errorf("answers are counted as %v", n)
	}
	var reports []router.Refused
	eventually(t, "all refusals to be reported", func() bool {
		reports = append(reports, refused.take()...)
		return len(reports) == invalid
	})
	for _, i := range reports {
		if i.Kind != router.RefusedPayload || i.Code != errors.InvalidArgument || i.Type != "$ws:answer" || i.Conn != conn {
			t.Errorf("reported as %+v", i)
		}
	}
	s.noFaults()
	p.bye()
	s.recovered()
}

// Answers that no question waits for are counted, and nothing else: a client cannot have anything
// written or sent with them.
func TestAnswersToNoQuestion(t *testing.T) {
	t.Parallel()
	s := newAsking(t, router.Options{}, router.QuestionOptions{})
	p := s.dial()
	p.write(yes("$ws:1"), yes("x"), answerFrame("", `"payload":{}`), textFrame(`{"type":"$ws:answer"}`))
	p.expect("ERROR INVALID_ARGUMENT", "ERROR INVALID_ARGUMENT") // those without an id
	p.write(request("1", "ask"))
	id := p.question()
	p.write(yes("$ws:77"), yes("1"), yes(`$ws:`), answerFrame(id, `"payload":{"note":"first"}`), yes(id), yes(id))
	p.expect("reply 1 falsefirst")
	p.write(echo("2", "x"))
	p.expect("reply 2 x")
	if n := s.r.Stats().AnswersIgnored; n != 7 {
		t.Errorf("%d answers were ignored, want 7", n)
	}
	const flood = 10_000
	go func() {
		_ = p.tryWrite([]byte(strings.Repeat(string(answerFrame("$ws:2", `"error":{"code":"INTERNAL"}`)), flood)))
		_ = p.tryWrite(echo("3", "x"))
	}()
	p.expect("reply 3 x")
	if n := s.r.Stats().AnswersIgnored; n != 7+flood {
		t.Errorf("%d answers were ignored, want %d", n, 7+flood)
	}
	s.noFaults()
	p.bye()
	s.recovered()
}

// The ids of the two directions are kept apart, whatever a client writes.
func TestIDsOfQuestionsAndRequests(t *testing.T) {
	t.Parallel()
	s := newAsking(t, router.Options{}, router.QuestionOptions{})
	p := s.dial()
	p.write(request("$ws:1", "ask beside"))
	id := p.question()
	if id != "$ws:1" {
		t.Fatalf("the first question has the id %s", id)
	}
	p.write(request("$ws:1", "echo"))
	p.expect("reply $ws:1 x")
	p.write(answerFrame(`$ws:1`, `"payload":{"note":"a"}`))
	p.expect("reply $ws:1 falsea")

	p.write(request("$ws:2", "ask beside"))
	id = p.question()
	p.write(textFrame(`{"type":"$ws:abort","meta":{"correlationId":"$ws:2"}}`)) // the request, and with it the question
	p.expect("RPC_ERROR $ws:2 CANCELLED", "$ws:abort ")
	p.write(yes(id))

	p.write(request("r", "ask beside"))
	if id = p.question(); id != "$ws:3" {
		t.Fatalf("the id is used again: %s", id)
	}
	// An id in which a character is escaped is the same id.
	p.write(textFrame(`{"type":"$ws:answer","meta":{"correlationId":"\u0024ws:3"},"payload":{"note":"b"}}`))
	p.expect("reply r falseb")
	p.bye()
	s.recovered()
}

// The time of a question is over: the client is sent $ws:abort, and what it answers then is ignored.
func TestQuestionsThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	s := newAsking(t, router.Options{}, router.QuestionOptions{Timeout: 50 * time.Millisecond})
	p := s.dial()
	p.write(request("1", "ask"))
	id := p.question()
	expectAbort(t, p, id)
	p.expect("reply 1 DEADLINE_EXCEEDED")
	p.write(yes(id), echo("2", "x"))
	p.expect("reply 2 x")
	if n := s.r.Stats().AnswersIgnored; n != 1 {
		t.Errorf("%d answers were ignored, want 1", n)
	}
	s.noFaults()
	p.bye()
	s.recovered()
}

// The same, when its context is cancelled.
func TestQuestionsThatAreCancelled(t *testing.T) {
	t.Parallel()
	s := newAsking(t, router.Options{}, router.QuestionOptions{})
	p := s.dial()
	conn := <-s.conns
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := s.confirm.Ask(ctx, conn, confirm{}); done <- err }()
	id := p.question()
	cancel()
	expectAbort(t, p, id)
	if err := await(t, done); errors.CodeOf(err) != errors.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := s.confirm.Ask(ctx, conn, confirm{}); errors.CodeOf(err) != errors.Cancelled { // nothing is sent
		t.Errorf("with a context that is over: %v", err)
	}
	p.write(yes(id), request("1", "ask"))
	p.write(yes(p.question()))
	p.expect("reply 1 true")
	if n := s.r.Stats().AnswersIgnored; n != 1 {
		t.Errorf("%d answers were ignored, want 1", n)
	}
	s.noFaults()
	p.bye()
	s.recovered()
}

func expectAbort(t *testing.T, p *peer, id string) {
	t.Helper()
	f, err := p.read()
	if want := `{"type":"$ws:abort","meta":{"correlationId":"` + id + `"}}`; err != nil || string(f.payload) != want {
		t.Fatalf("got %s, %v, want %s", f.payload, err, want)
	}
}

// However a connection ends, what waits for its client does not wait any longer.
func TestQuestionsOfAConnectionThatEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*peer, *router.Conn){
		"the client closes":   func(p *peer, _ *router.Conn) { p.write(closing(1000, "")) },
		"the client vanishes": func(p *peer, _ *router.Conn) { p.hangUp() },
		"the server closes":   func(_ *peer, c *router.Conn) { c.Close(4001, "enough") },
		"a violation":         func(p *peer, _ *router.Conn) { p.write(frame(fin|0x3, "x")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newAsking(t, router.Options{}, router.QuestionOptions{Timeout: -1})
			p := s.dial()
			conn := <-s.conns
			done := make(chan error, 2)
			for range 2 {
				go func() { _, err := s.confirm.Ask(context.Background(), conn, confirm{}); done <- err }()
				p.question()
			}
			p.write(request("", "ask in an event")) // the end waits for events
			p.question()
			end(p, conn)
			for range 2 {
				if err := await(t, done); !errors.Is(err, router.ErrClosed) {
					t.Errorf("got %v", err)
				}
			}
			if name == "the server closes" {
				if conn.Context().Err() != nil {
					t.Error("the client has not answered the close frame, and the questions have waited for that")
				}
			} else {
				eventually(t, "the connection to end", func() bool { return s.r.Stats().Connections == 0 })
			}
			if _, err := s.confirm.Ask(context.Background(), conn, confirm{}); !errors.Is(err, router.ErrClosed) {
				t.Errorf("afterwards: %v", err)
			}
			p.hangUp()
			s.settled()
		})
	}
}

// The same, of one that is silent.
func TestQuestionsOfASilentClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan *router.Conn, 1)
		r := router.New(router.Options{OnOpen: func(c *router.Conn) error { conns <- c; return nil }})
		q := router.DeclareQuestion[confirm, confirmed](r, "confirm", router.QuestionOptions{Timeout: -1})
		handled := make(chan error, 1)
		router.On(r, "ask", func(c *router.Context, _ struct{}) error {
			_, err := q.Ask(c, c.Conn(), confirm{})
			handled <- err
			return err
		})
		c := routertest.New(t, r).Dial()
		conn := <-conns
		c.IgnorePings()
		done := make(chan error, 1)
		go func() { _, err := q.Ask(context.Background(), conn, confirm{}); done <- err }()
		c.Send("ask", nil)
		start := time.Now()
		for _, waits := range []chan error{done, handled} {
			if err := <-waits; !errors.Is(err, router.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		mustBeWithin(t, "the questions ended", time.Since(start), 35*time.Second)
		c.ExpectClose(errors.CloseNoHeartbeat)
		if _, err := q.Ask(context.Background(), conn, confirm{}); !errors.Is(err, router.ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestNumberOfQuestionsIsBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	s := newAsking(t, router.Options{Limits: router.Limits{MaxQuestions: most}}, router.QuestionOptions{})
	p := s.dial()
	conn := <-s.conns
	done := make(chan string, most)
	ids := []string{}
	for range most {
		go func() { done <- outcome(s.confirm.Ask(t.Context(), conn, confirm{})) }()
		ids = append(ids, p.question())
	}
	_, err := s.confirm.Ask(t.Context(), conn, confirm{})
	if e, ok := errors.AsType[*errors.Error](err); !ok || e.Code != errors.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	p.write(yes(ids[0]))
	if got := await(t, done); got != "true" {
		t.Errorf("got %s", got)
	}
	go func() { done <- outcome(s.confirm.Ask(t.Context(), conn, confirm{})) }()
	ids = append(ids, p.question())
	for _, id := range ids[1:] {
		p.write(yes(id))
		if got := await(t, done); got != "true" {
			t.Errorf("got %s", got)
		}
	}
	p.bye()
	s.recovered()
}

// A handler waits for its client, and the client sends more than may wait before it answers. The
// answer arrives in any case, in all orders of the two, and so does an answer to each request.
func TestAnswersBehindMessagesThatWait(t *testing.T) {
	t.Parallel()
	small := router.Limits{MaxInFlight: 4}
	bytes := router.Limits{MaxPending: 4 << 10}
	for _, tc := range []struct {
		name, asks string
		limits     router.Limits
		fill       string
		concurrent bool
		n          int // messages before the answer
	}{
		{"few", "ask", router.Limits{}, "x", false, 50},
		{"1,000", "ask", router.Limits{}, "x", false, 1000},
		{"more than may wait", "ask", small, "x", false, 20},
		{"more bytes than may wait", "ask", bytes, strings.Repeat("x", 1000), false, 20},
		{"more than may be handled at once", "ask beside", small, "x", true, 20},
		{"in an event", "ask in an event", small, "x", false, 20},
		{"asked when the reader waits", "ask later", small, "x", false, 20},
		{"asked when the reader waits, for bytes", "ask later", bytes, strings.Repeat("x", 1000), false, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newAsking(t, router.Options{Limits: tc.limits}, router.QuestionOptions{})
			p := s.dial()
			asks := request("asks", tc.asks)
			if strings.Contains(tc.asks, "event") {
				asks = request("", tc.asks)
			}
			p.write(asks)
			id := "$ws:1"
			if tc.asks != "ask later" {
				id = p.question()
			}
			var all []byte
			for i := range tc.n {
				typ := "echo"
				if tc.concurrent {
					typ = "hold"
				}
				all = append(all, textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"%d"},"payload":{"text":%q}}`, typ, i, tc.fill))...)
			}
			go func() { _ = p.tryWrite(join(all, yes(id))) }()
			if tc.asks == "ask later" {
				spend(50 * time.Millisecond) // for the reader to wait for room; without, less is tested
			}
			close(s.release)
			answers := map[string]int{}
			want := tc.n + 1
			if strings.Contains(tc.asks, "event") {
				want--
			}
			replied := 0
			for len(answers) < want {
				f := p.next()
				kind, rest, _ := strings.Cut(f, " ")
				name, text, _ := strings.Cut(rest, " ")
				switch {
				case f == "confirm "+`{"text":"x"}`:
					continue
				case kind == "reply":
					replied++
				case kind == "RPC_ERROR" && text == "RESOURCE_EXHAUSTED":
				default:
					t.Fatalf("got %.100q", f)
				}
				if name == "asks" && text != "true" {
					t.Errorf("the question is answered %s", text)
				}
				if answers[name]++; answers[name] > 1 {
					t.Errorf("%s has two answers", name)
				}
			}
			if replied < 4 {
				t.Errorf("%d requests were handled", replied)
			}
			if tc.n == 50 && replied != want {
				t.Errorf("%d requests were handled, want all of %d", replied, want)
			}
			s.noFaults()
			p.bye()
			s.recovered()
		})
	}
}

// As many handlers as may run at once all ask.
func TestConcurrentEventsThatAsk(t *testing.T) {
	t.Parallel()
	s := newAsking(t, router.Options{Limits: router.Limits{MaxInFlight: 4}}, router.QuestionOptions{})
	p := s.dial()
	event := textFrame(`{"type":"ask in an event beside","payload":{"text":"x"}}`)
	p.write(join(event, event, event, event, event, event))
	asked := `confirm {"text":"x"}`
	p.expectInAnyOrder(asked, asked, asked, asked, "ERROR RESOURCE_EXHAUSTED", "ERROR RESOURCE_EXHAUSTED")
	for n := range 4 {
		p.write(yes(fmt.Sprint("$ws:", n+1)))
	}
	p.write(echo("1", "x"))
	p.expect("reply 1 x")
	p.bye()
	s.recovered()
}

// An answer to a question that is open is not refused by the application's middleware: the user has given it once.
func TestAnswersAreNotRefused(t *testing.T) {
	t.Parallel()
	s := &asking{release: make(chan struct{}), conns: make(chan *router.Conn, 10)}
	s.socketServer = serveSocket(t, router.Options{}, func(r *router.Router) {
		s.confirm = router.DeclareQuestion[confirm, confirmed](r, "confirm")
		router.RPC(r, "ask", func(c *router.Context, m said) (said, error) {
			return said{outcome(s.confirm.Ask(c, c.Conn(), confirm(m)))}, nil
		})
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type != "ask" {
					return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 1, RetryAfter: time.Second})
				}
				return next(c)
			}
		})
	})
	p := s.dial()
	const beats = 1100
	for refused := false; !refused; { // an answer does not need the allowance for messages of the protocol: use it up
		p.write(bytes.Repeat(textFrame(`{"type":"__heartbeat"}`), beats))
		for range beats {
			refused = p.next() == "ERROR RESOURCE_EXHAUSTED"
		}
	}
	for range 50 {
		p.write(request("1", "ask"))
		id := p.question()
		p.write(yes(id))
		p.expect("reply 1 true")
	}
	p.bye()
}

// A drain waits for a handler, and for the answer that this waits for.
func TestShutdownWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	s := newAsking(t, router.Options{Liveness: router.Liveness{DrainWindow: -1}}, router.QuestionOptions{})
	p := s.dial()
	p.write(request("1", "ask"))
	id := p.question()
	done := make(chan error, 1)
	go func() { done <- s.r.Shutdown(context.Background()) }()
	eventually(t, "the drain to begin", func() bool {
		p.write(request("2", "echo beside")) // in line, one that comes before the drain would wait for the answer
		return p.next() == "RPC_ERROR 2 UNAVAILABLE"
	})
	p.write(yes(id))
	p.expect("reply 1 true", "close 1001")
	p.write(closing(1001, ""))
	if err := await(t, done); err != nil {
		t.Error(err)
	}
}

type panicsDecoding struct{}

func (*panicsDecoding) UnmarshalJSON([]byte) error { panic("decoding") }

// A type that panics when it decodes itself does so in the goroutine that asks, which need not be
// a handler.
func TestAnswersThatPanicWhenTheyAreDecoded(t *testing.T) {
	t.Parallel()
	var ask router.Question[struct{}, panicsDecoding]
	var f faults
	conns := make(chan *router.Conn, 1)
	s := serveSocket(t, router.Options{OnError: f.add, OnOpen: func(c *router.Conn) error { conns <- c; return nil }}, func(r *router.Router) {
		ask = router.DeclareQuestion[struct{}, panicsDecoding](r, "confirm")
	})
	p := s.dial()
	conn := <-conns
	done := make(chan error, 1)
	go func() { _, err := ask.Ask(t.Context(), conn, struct{}{}); done <- err }()
	p.write(yes(p.question()))
	p.expect("ERROR INTERNAL")
	if err := await(t, done); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("got %v", err)
	}
	if got := f.String(); !strings.Contains(got, "panic in the handling of $ws:answer: decoding") {
		t.Errorf("faults: %s", got)
	}
	p.bye()
	s.recovered()
}

func TestDeclaredQuestions(t *testing.T) {
	t.Parallel()
	r := router.New()
	g := r.Group("files.")
	q := router.DeclareQuestion[confirm, confirmed](g, "confirm", router.QuestionOptions{Doc: "Asks.", Timeout: time.Minute})
	router.DeclareQuestion[struct{}, *confirmed](r, "plain")
	type brief struct{ Type, Kind, Group, Message, Reply, Timeout, Doc string }
	var got []brief
	for _, i := range r.Routes() {
		got = append(got, brief{i.Type, string(i.Kind), i.Group, i.Message.String(), i.Reply.String(), i.Timeout.String(), i.Doc})
		if !strings.Contains(i.Place, "question_test.go:") {
			t.Errorf("%s is declared at %s", i.Type, i.Place)
		}
	}
	want := []brief{
		{"files.confirm", "question", "files.", "router_test.confirm", "router_test.confirmed", "1m0s", "Asks."},
		{"plain", "question", "", "struct {}", "*router_test.confirmed", "30s", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, tc := range map[string]struct {
		want string
		do   func()
	}{
		"twice":         {`the question "plain" is declared twice`, func() { router.DeclareQuestion[int, int](r, "plain") }},
		"as an event":   {`the event "plain" is declared twice`, func() { router.Declare[int](r, "plain") }},
		"reserved":      {"reserved", func() { router.DeclareQuestion[int, int](r, "$ws:x") }},
		"two options":   {"merge them into one", func() { router.DeclareQuestion[int, int](r, "a", router.QuestionOptions{}, router.QuestionOptions{}) }},
		"never encoded": {"the payload of \"b\" can never be encoded", func() { router.DeclareQuestion[chan int, int](r, "b") }},
		"never decoded": {"the answer of \"c\" can never be decoded", func() { router.DeclareQuestion[int, chan int](r, "c") }},
		"rules of no sense": {"the answer", func() {
			router.DeclareQuestion[int, struct {
				A int `validate:"nonsense"`
			}](r, "d")
		}},
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, tc.want) {
					t.Errorf("%s: panics with %q", name, v)
				}
			}()
			tc.do()
		}()
	}

	synctest.Test(t, func(t *testing.T) {
		other := router.New()
		conns := make(chan *router.Conn, 1)
		router.RPC(other, "conn", func(c *router.Context, _ struct{}) (struct{}, error) { conns <- c.Conn(); return struct{}{}, nil })
		c := routertest.New(t, other).Dial()
		routertest.ExpectReply[struct{}](c.Request("conn", nil))
		if _, err := q.Ask(t.Context(), <-conns, confirm{}); err == nil || !strings.Contains(err.Error(), "another router") {
			t.Errorf("a question to a connection of another router: %v", err)
		}
	})
}

// With the test kit: no time passes, and errors are as the server sees them.
func TestAnswerOfTheTestKit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := router.New()
		q := router.DeclareQuestion[confirm, confirmed](r, "confirm")
		router.RPC(r, "delete", func(c *router.Context, m said) (string, error) {
			return outcome(q.Ask(c, c.Conn(), confirm(m))), nil
		})
		c := routertest.New(t, r).Dial()
		before := c.Request("delete", said{"early"})
		synctest.Wait() // asked before Answer
		routertest.Answer(c, "confirm", func(q confirm) (confirmed, error) {
			switch q.Text {
			case "no":
				return confirmed{}, errors.PermissionDenied.New("no")
			case "fault":
				return confirmed{}, fmt.Errorf("secret")
			}
			return confirmed{Yes: true, Note: q.Text}, nil
		})
		for want, q := range map[string]*routertest.Request{
			"trueearly": before, "truea": c.Request("delete", said{"a"}),
			"PERMISSION_DENIED": c.Request("delete", said{"no"}), "UNKNOWN": c.Request("delete", said{"fault"}),
		} {
			if got := routertest.ExpectReply[string](q); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if frames := c.Frames(); len(frames) > 0 {
			t.Errorf("left are %v", frames)
		}
	})
}
