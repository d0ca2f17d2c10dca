package otel_test

import (
	"context"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/observe/otel"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

const (
	clientTrace, clientSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	pageTrace, pageSpan     = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
	sampled                 = "00-" + clientTrace + "-" + clientSpan + "-01"
	unsampled               = "00-" + clientTrace + "-" + clientSpan + "-00"
	handshake               = "00-" + pageTrace + "-" + pageSpan + "-01"
)

type said struct {
	Text string `json:"text"`
}

// process is a server with a broker of its own, as a process has it.
type process struct {
	*routertest.Server
	r     *router.Router
	spans *tracetest.InMemoryExporter
	conns chan *router.Conn
}

func start(t *testing.T, broker pubsub.Broker, o otel.TraceOptions, sampler sdk.Sampler) *process {
	p := &process{spans: tracetest.NewInMemoryExporter(), conns: make(chan *router.Conn, 8)}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(p.spans), sdk.WithSampler(sampler))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	o.TracerProvider = provider
	p.r = router.New(router.Options{Backend: adapters.Backend{Broker: broker}, Handshake: router.Handshake{ConnContext: otel.ConnContext}, OnOpen: func(c *router.Conn) error {
		p.conns <- c
		return c.Subscribe(context.Background(), "room")
	}})
	if _, ok := broker.(pubsub.Log); ok {
		p.r.History("log")
	}
	otel.Trace(p.r, o)
	database := provider.Tracer("database")
	router.On(p.r, "say", func(c *router.Context, m said) error {
		_, span := database.Start(c, "SELECT") // as an instrumented client of a database does
		span.End()
		topic := "room"
		if m.Text == "log" {
			topic = "log"
		}
		return c.Publish(topic, "said", m)
	})
	router.RPC(p.r, "fail", func(_ *router.Context, m said) (said, error) {
		switch m.Text {
		case "panic":
			panic("secret")
		case "fault":
			return m, errors.New("secret")
		}
		return m, errors.NotFound.New("secret")
	})
	p.Server = routertest.New(t, p.r)
	return p
}

// wait returns n spans, by name.
func (p *process) wait(t *testing.T, n int) map[string]tracetest.SpanStub {
	t.Helper()
	redistest.Eventually(t, "spans are exported", func() bool { return len(p.spans.GetSpans()) >= n })
	all := p.spans.GetSpans()
	if len(all) != n {
		t.Errorf("%d spans, want %d: %v", len(all), n, all)
	}
	byName := make(map[string]tracetest.SpanStub)
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName
}

func parentOf(s tracetest.SpanStub) string { return s.Parent.SpanID().String() }

func spanOf(s tracetest.SpanStub) string { return s.SpanContext.SpanID().String() }

// links returns the spans that a span has links to.
func links(s tracetest.SpanStub) (all []string) {
	for _, l := range s.Links {
		all = append(all, l.SpanContext.TraceID().String()+"-"+l.SpanContext.SpanID().String())
	}
	return all
}

// A message's trace goes from its client over the handler, whose database calls are in it, through the
// broker to the process of another client, and to that client.
func TestATraceThroughTwoProcesses(t *testing.T) {
	server := redistest.Start(t)
	for _, topic := range []string{"room", "log"} {
		t.Run(topic, func(t *testing.T) {
			var processes [2]*process
			for i := range processes {
				client := server.Client()
				broker := redis.NewBroker(client, redis.BrokerOptions{Prefix: topic})
				t.Cleanup(func() { broker.Close(); _ = client.Close() })
				processes[i] = start(t, broker, otel.TraceOptions{}, sdk.ParentBased(sdk.AlwaysSample()))
			}
			a := processes[0].Dial(routertest.DialOptions{Header: http.Header{"Traceparent": {handshake}}})
			b := processes[1].Dial()
			for _, p := range processes {
				if err := (<-p.conns).Subscribe(t.Context(), "log"); err != nil {
					t.Fatal(err)
				}
			}
			a.SendRaw(`{"type":"say","meta":{"traceparent":"` + sampled + `"},"payload":{"text":"` + topic + `"}}`)
			f := b.ExpectAny("said")

			here := processes[0].wait(t, 3) // the message, its database call, and the delivery in its own process
			there := processes[1].wait(t, 1)
			say, query, delivery := here["say"], here["SELECT"], there["deliver said"]
			for _, s := range []tracetest.SpanStub{say, query, delivery, here["deliver said"]} {
				if s.SpanContext.TraceID().String() != clientTrace {
					t.Errorf("the span %q is in trace %v, want that of the client", s.Name, s.SpanContext.TraceID())
				}
			}
			if parentOf(say) != clientSpan || say.SpanKind != trace.SpanKindServer {
				t.Errorf("the message's parent is %s, kind %v", parentOf(say), say.SpanKind)
			}
			if got := links(say); len(got) != 1 || got[0] != pageTrace+"-"+pageSpan {
				t.Errorf("the message has links to %v, want the handshake's span", got)
			}
			if parentOf(query) != spanOf(say) {
				t.Errorf("the database's span has the parent %s, want %s", parentOf(query), spanOf(say))
			}
			if parentOf(delivery) != spanOf(say) || delivery.SpanKind != trace.SpanKindConsumer {
				t.Errorf("the delivery's parent is %s, want %s; kind %v", parentOf(delivery), spanOf(say), delivery.SpanKind)
			}
			if got, want := string(f.Meta.Own["traceparent"]), `"00-`+clientTrace+"-"+spanOf(say)+`-01"`; got != want {
				t.Errorf("the other client got the traceparent %s, want %s", got, want)
			}
		})
	}
}

// What is not sampled is not passed on, and makes no span anywhere.
func TestWithoutSampling(t *testing.T) {
	p := start(t, memory.NewBroker(), otel.TraceOptions{}, sdk.ParentBased(sdk.NeverSample()))
	c := p.Dial()
	for _, meta := range []string{"{}", `{"traceparent":"` + unsampled + `"}`} {
		c.SendRaw(`{"type":"say","meta":` + meta + `,"payload":{"text":""}}`)
		if f := c.ExpectAny("said"); f.Meta.Own["traceparent"] != nil {
			t.Errorf("published with %s", f.Raw)
		}
	}
	if n := len(p.spans.GetSpans()); n != 0 {
		t.Errorf("%d spans", n)
	}
	p = start(t, memory.NewBroker(), otel.TraceOptions{}, sdk.ParentBased(sdk.AlwaysSample()))
	c = p.Dial()
	if err := p.r.Publish(t.Context(), "room", "said", nil); err != nil {
		t.Fatal(err)
	}
	c.ExpectAny("said")
	if n := len(p.spans.GetSpans()); n != 0 {
		t.Errorf("%d spans of a message that is part of no trace", n)
	}
}

// A message without a usable traceparent begins a trace of its own, and none is part of the trace of
// the handshake, in which it would grow with the age of the connection.
func TestMessagesHaveTracesOfTheirOwn(t *testing.T) {
	for name, meta := range map[string]string{"none": "{}", "no text": `{"traceparent":7}`, "malformed": `{"traceparent":"00-zz"}`} {
		t.Run(name, func(t *testing.T) {
			p := start(t, nil, otel.TraceOptions{}, sdk.ParentBased(sdk.AlwaysSample()))
			c := p.Dial(routertest.DialOptions{Header: http.Header{"Traceparent": {handshake}}})
			for range 2 {
				c.SendRaw(`{"type":"say","meta":` + meta + `,"payload":{"text":""}}`)
				c.ExpectAny("said")
			}
			p.wait(t, 4)
			traces := make(map[string]bool)
			for _, s := range p.spans.GetSpans() {
				if s.Name == "say" {
					traces[s.SpanContext.TraceID().String()] = true
					if s.Parent.IsValid() || len(s.Links) != 1 {
						t.Errorf("parent %v, links %v", s.Parent, links(s))
					}
				}
			}
			if len(traces) != 2 || traces[pageTrace] || traces[clientTrace] {
				t.Errorf("traces %v", traces)
			}
		})
	}
}

// At a public endpoint a client's trace is a link.
func TestPublicEndpoint(t *testing.T) {
	p := start(t, nil, otel.TraceOptions{PublicEndpoint: true}, sdk.ParentBased(sdk.AlwaysSample()))
	c := p.Dial()
	c.SendRaw(`{"type":"say","meta":{"traceparent":"` + unsampled + `"},"payload":{"text":""}}`)
	c.ExpectAny("said")
	say := p.wait(t, 2)["say"]
	if got := links(say); say.Parent.IsValid() || len(got) != 1 || got[0] != clientTrace+"-"+clientSpan {
		t.Errorf("parent %v, links %v", say.Parent, got)
	}
}

// The outcome is an attribute; only a fault of the server is an error of the span. No text of an error is
// in a span.
func TestOutcomesOfSpans(t *testing.T) {
	for text, want := range map[string]struct {
		code   errors.Code
		status codes.Code
	}{"": {errors.NotFound, codes.Unset}, "fault": {errors.Internal, codes.Error}, "panic": {errors.Internal, codes.Error}} {
		p := start(t, nil, otel.TraceOptions{}, sdk.AlwaysSample())
		p.Dial().Request("fail", said{text}).ExpectError(want.code)
		s := p.wait(t, 1)["fail"]
		got := attribute.NewSet(s.Attributes...)
		if code, _ := got.Value("rpc.response.status_code"); code.AsString() != string(want.code) || s.Status.Code != want.status {
			t.Errorf("%q: code %v, status %v", text, code.AsString(), s.Status)
		}
		if s.Status.Description == "secret" || len(s.Events) > 0 {
			t.Errorf("%q: the span has %v, %v", text, s.Status, s.Events)
		}
	}
}

// A message whose meta is full goes out without a traceparent, and does not fail.
func TestNoRoomInMeta(t *testing.T) {
	p := start(t, nil, otel.TraceOptions{}, sdk.AlwaysSample())
	_, span := sdk.NewTracerProvider().Tracer("test").Start(t.Context(), "outside")
	defer span.End()
	c := p.Dial()
	meta := router.Meta{"own": string(make([]byte, 480/6))}
	if err := p.r.Publish(trace.ContextWithSpan(t.Context(), span), "room", "said", nil, router.PublishOptions{Meta: meta}); err != nil {
		t.Fatal(err)
	}
	if f := c.ExpectAny("said"); f.Meta.Own["own"] == nil || f.Meta.Own["traceparent"] != nil {
		t.Errorf("got %s", f.Raw)
	}
}
