package router_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type (
	news struct {
		Text string `json:"text" validate:"required"`
	}
	other struct {
		Text string `json:"text"`
	}
)

// sendings are all ways in which an event leaves a router. Each reaches a client that is
// subscribed to the topic news and whose connection is c.
var sendings = map[string]func(k *router.Context, r *router.Router, typ string, payload any) error{
	"Context.Send": func(k *router.Context, _ *router.Router, typ string, payload any) error { return k.Send(typ, payload) },
	"Conn.Send": func(k *router.Context, _ *router.Router, typ string, payload any) error {
		return k.Conn().Send(typ, payload)
	},
	"Context.Publish": func(k *router.Context, _ *router.Router, typ string, payload any) error {
		return k.Publish("news", typ, payload)
	},
	"Router.Publish": func(k *router.Context, r *router.Router, typ string, payload any) error {
		return r.Publish(k, "news", typ, payload)
	},
}

// Under a declared type only its Go type can be sent, by whichever method; types that are
// not declared go with any payload. With a broker it is the same.
func TestDeclaredEvents(t *testing.T) {
	t.Parallel()
	for name, broker := range map[string]memory.Broker{"alone": nil, "with a broker": memory.NewBroker()} {
		for way, send := range sendings {
			t.Run(name+"/"+way, func(t *testing.T) {
				opts := router.Options{}
				if broker != nil {
					opts.Backend.Broker = broker
				}
				results := make(chan error, 3)
				s := serveSocket(t, opts, func(r *router.Router) {
					subscribing(r)
					router.Declare[news](r, "news.flash")
					router.Declare[any](r, "anything")
					router.Declare[struct{}](r, "nothing")
					router.Declare[fmt.Stringer](r, "stringer")
					router.On(r, "try", func(c *router.Context, m said) error {
						results <- send(c, r, "news.flash", other(m))
						results <- send(c, r, "news.flash", &news{m.Text})
						results <- send(c, r, "news.flash", nil)
						for typ, payload := range map[string]any{"nothing": news{"x"}, "stringer": 1} {
							if send(c, r, typ, payload) == nil {
								t.Errorf("%s is sent with %T", typ, payload)
							}
						}
						for _, e := range []struct {
							typ     string
							payload any
						}{
							{"news.flash", news(m)}, {"anything", other(m)}, {"anything", nil}, {"nothing", nil}, {"nothing", struct{}{}},
							{"stringer", label("1s")}, {"not.declared", other(m)},
						} {
							if err := send(c, r, e.typ, e.payload); err != nil {
								t.Errorf("%s with %T: %v", e.typ, e.payload, err)
							}
						}
						return nil
					})
				})
				p := s.dial()
				p.write(join1("news"))
				p.expect("reply j news")
				p.write(textFrame(`{"type":"try","payload":{"text":"a"}}`))
				for _, sent := range []string{"router_test.other", "*router_test.news", "<nil>"} {
					err := <-results
					if err == nil {
						t.Fatal("another Go type is sent under a declared type")
					}
					for _, says := range []string{`"news.flash"`, "router_test.news", sent, "event_test.go:"} {
						if !strings.Contains(err.Error(), says) {
							t.Errorf("the error %q does not say %s", err, says)
						}
					}
				}
				p.expect(`news.flash {"text":"a"}`, `anything {"text":"a"}`, "anything ", "nothing ", "nothing ", `stringer "1s"`, `not.declared {"text":"a"}`)
				p.bye()
				s.recovered()
			})
		}
	}
}

type label string

func (s label) String() string { return string(s) }

// The typed methods send to whatever has the untyped one, from handlers and from outside.
func TestTypedEvents(t *testing.T) {
	t.Parallel()
	conns := make(chan *router.Conn, 1)
	var flash router.Event[news]
	s := serveSocket(t, router.Options{OnOpen: func(c *router.Conn) error {
		conns <- c
		return flash.Send(c.Context(), c, news{"open"})
	}}, func(r *router.Router) {
		subscribing(r)
		flash = router.Declare[news](r.Group("news."), "flash")
		router.On(r, "tell", func(c *router.Context, m said) error {
			if err := flash.Send(c, c.Conn(), news{m.Text + " send"}); err != nil {
				return err
			}
			return flash.Publish(c, "news", news{m.Text + " publish"}, router.PublishOptions{})
		})
	})
	p := s.dial()
	p.expect(`news.flash {"text":"open"}`)
	c := <-conns
	p.write(join1("news"))
	p.expect("reply j news")
	p.write(textFrame(`{"type":"tell","payload":{"text":"a"}}`))
	p.expect(`news.flash {"text":"a send"}`, `news.flash {"text":"a publish"}`)
	ctx := context.Background()
	if err := flash.Publish(ctx, "news", news{"from"}); err != nil {
		t.Error(err)
	}
	p.expect(`news.flash {"text":"from"}`)
	if err := flash.Publish(ctx, "news", news{"from"}, router.PublishOptions{Except: c.ID()}); err != nil {
		t.Error(err)
	}
	if err := flash.Send(ctx, c, news{"to"}); err != nil {
		t.Error(err)
	}
	p.expect(`news.flash {"text":"to"}`) // and not what it was left out of
	for _, o := range []router.PublishOptions{{Except: c.ID()}, {Key: "x"}, {Overflow: router.OverflowDropNewest}} {
		if err := flash.Send(ctx, c, news{"x"}, o); err == nil {
			t.Errorf("what has no effect is taken: %+v", o)
		}
	}
	if err := (router.Event[news]{}).Send(ctx, c, news{"x"}); err == nil {
		t.Error("an event that was never declared is sent")
	}
	if err := (router.Event[news]{}).Publish(ctx, "news", news{"x"}); err == nil {
		t.Error("an event that was never declared is published")
	}
	p.bye()
}

// What is published before the first connection is checked, too.
func TestDeclaredEventsBeforeServing(t *testing.T) {
	t.Parallel()
	r := router.New()
	router.Declare[news](r, "news.flash")
	if err := r.Publish(t.Context(), "news", "news.flash", other{}); err == nil {
		t.Error("another Go type is published")
	}
	if err := r.Publish(t.Context(), "news", "news.flash", news{}); err != nil {
		t.Error(err)
	}
}

// replying has a request whose reply is not valid, and one that publishes what is not, and
// ignores that it fails.
func replying(r *router.Router) {
	flash := router.Declare[news](r, "news.flash")
	router.RPC(r, "reply", func(_ *router.Context, m said) (news, error) { return news(m), nil })
	router.RPC(r, "reply.pointer", func(_ *router.Context, m said) (*news, error) {
		if m.Text == "nil" {
			return nil, nil
		}
		return &news{m.Text}, nil
	})
	router.RPC(r, "flash", func(c *router.Context, m said) (struct{}, error) {
		_ = flash.Send(c, c.Conn(), news(m))
		return struct{}{}, nil
	})
	router.RPC(r, "progress", func(c *router.Context, m said) (string, error) {
		if m.Text == "" {
			_ = c.Progress(50)
		} else {
			_ = c.Progress(m)
		}
		return "done", nil
	}, router.RouteOptions{Progress: said{}})
}

// With the option, replies and declared events that break their own rules are not sent; a
// reply becomes INTERNAL and a fault. Without it they are.
func TestValidateOutgoing(t *testing.T) {
	t.Parallel()
	for _, validate := range []bool{false, true} {
		faults := make(chan router.Fault, 2)
		s := serveSocket(t, router.Options{ValidateOutgoing: validate, OnError: func(f router.Fault) { faults <- f }}, replying)
		p := s.dial()
		say := func(typ, text string) {
			p.write(textFrame(fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"},"payload":{"text":%q}}`, typ, text)))
		}
		for _, typ := range []string{"reply", "reply.pointer"} {
			say(typ, "a")
			p.expect("reply 1 a")
			say(typ, "")
			if !validate {
				p.expect("reply 1 ")
				continue
			}
			p.expect("RPC_ERROR 1 INTERNAL")
			if f := <-faults; f.Type != typ || !strings.Contains(f.Err.Error(), "not valid") {
				t.Errorf("the fault is %+v", f)
			}
		}
		say("reply.pointer", "nil")
		p.expect("reply 1 ")
		say("flash", "a")
		p.expect(`news.flash {"text":"a"}`, "reply 1 ")
		say("flash", "")
		if !validate {
			p.expect(`news.flash {"text":""}`)
		}
		p.expect("reply 1 ")
		p.bye()
		s.recovered()
	}
}

// recorded is a test that may fail.
type recorded struct {
	testing.TB
	failures journal
}

func (r *recorded) Helper() {}
func (r *recorded) Errorf(format string, args ...any) {
	r.failures.add(fmt.Sprintf(format, args...))
}

// In tests with routertest it is always checked, and fails the test although the handler
// ignores the error; a progress of another type than the declared one likewise.
func TestRoutertestChecksWhatIsSent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ typ, fails, passes string }{
		{"reply", "", "a"}, {"flash", "", "a"}, {"progress", "", "a"},
	} {
		watched := &recorded{TB: t}
		r := router.New(router.Options{OnError: func(router.Fault) {}})
		replying(r)
		c := routertest.New(watched, r).Dial()
		routertest.ExpectReply[any](c.Request(tc.typ, said{tc.passes}))
		if got := watched.failures.take(); len(got) > 0 {
			t.Errorf("%s: what is valid fails the test: %q", tc.typ, got)
		}
		q := c.Request(tc.typ, said{tc.fails})
		if tc.typ == "reply" {
			q.ExpectError(errors.Internal)
		} else {
			routertest.ExpectReply[any](q)
		}
		if got := watched.failures.take(); len(got) != 1 || !strings.Contains(got[0], tc.typ) {
			t.Errorf("%s: the test fails with %q, want one failure that names it", tc.typ, got)
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	r := router.New(router.Options{RequestTimeout: time.Minute, Limits: router.Limits{MaxPayload: 5000}})
	router.On(r, "z.event", func(*router.Context, news) error { return nil }, router.RouteOptions{
		Concurrent: true, Timeout: time.Second, Doc: "tells",
	})
	g := r.Group("chat.", router.RouteOptions{Exempt: true})
	router.RPC(g, "send", func(*router.Context, news) (*other, error) { return nil, nil }, router.RouteOptions{
		Progress: said{}, Strict: true, MaxPayload: 300, Doc: "sends",
	})
	router.RPC(r, "plain", ok, router.RouteOptions{Reply: "done", Timeout: -1})
	router.Declare[*news](g, "message", router.EventOptions{Doc: "was sent"})
	router.On(g, "message", none)

	want := []router.RouteInfo{
		{Type: "chat.message", Kind: router.KindDeclared, Group: "chat.", Message: reflect.TypeFor[*news](), Doc: "was sent"},
		{Type: "chat.message", Kind: router.KindEvent, Group: "chat.", Message: reflect.TypeFor[struct{}](), MaxPayload: 5000, Exempt: true, PayloadOptional: true},
		{
			Type: "chat.send", Kind: router.KindRequest, Group: "chat.", Message: reflect.TypeFor[news](), ReplyType: "chat.send.reply", Reply: reflect.TypeFor[*other](),
			Progress: reflect.TypeFor[said](), Timeout: time.Minute, MaxPayload: 300, Exempt: true, Strict: true, Doc: "sends",
		},
		{Type: "plain", Kind: router.KindRequest, Message: reflect.TypeFor[struct{}](), ReplyType: "done", Reply: reflect.TypeFor[struct{}](), MaxPayload: 5000, PayloadOptional: true},
		{Type: "z.event", Kind: router.KindEvent, Message: reflect.TypeFor[news](), Timeout: time.Second, MaxPayload: 5000, Concurrent: true, Doc: "tells"},
	}
	check := func() {
		t.Helper()
		got := r.Routes()
		for i := range got {
			if !strings.Contains(got[i].Place, "event_test.go:") {
				t.Errorf("%s is registered at %q", got[i].Type, got[i].Place)
			}
			got[i].Place = ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	wrapped := 0
	g.Use(func(next ingress.Handler) ingress.Handler { wrapped++; return next })
	check()
	if wrapped != 0 {
		t.Errorf("listing calls the middleware %d times", wrapped)
	}
	routertest.New(t, r).Dial()
	check()
}
