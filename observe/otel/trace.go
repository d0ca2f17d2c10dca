package otel

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/router"
)

// TraceOptions configure [Trace].
type TraceOptions struct {
	// TracerProvider makes the spans.
	//
	// Default: that of go.opentelemetry.io/otel.
	TracerProvider trace.TracerProvider

	// PublicEndpoint begins a trace of its own for each message, with a link to the one that the client's
	// traceparent names. So clients that are not trusted neither add to traces of others nor
	// decide what is sampled.
	//
	// Default: the client's trace is continued.
	PublicEndpoint bool
}

// Trace makes a span for each message that reaches its handler, from when its middleware begins until its
// handler has returned. Its parent is the traceparent of the message's meta, if there is one; it has a
// link to the span of the handshake, if Options.Handshake.ConnContext of the router is [ConnContext]. There is no
// span for a connection: it would be exported when the connection ends.
//
// The contexts of handlers carry the span, so the spans of a database's client are its children. What a
// handler publishes while the span is sampled has the traceparent in its meta, and each process to which a
// broker delivers it makes a span for that.
//
// Call Trace before other calls of Router.UseHandler, whose middleware then runs within the span. It panics
// once the router has served a connection.
func Trace(r *router.Router, options ...TraceOptions) {
	o := given.Must("otel", "Trace", options)
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	t := &tracer{o.TracerProvider.Tracer(scope), o.PublicEndpoint}
	r.UseHandler(t.handle)
	r.AddHooks(router.Hooks{PublishMeta: publishMeta, OnDelivered: t.delivered})
}

// ConnContext keeps the span of the handshake for the messages of its connection, and nothing else of
// the request: that of HTTP middleware, or else the traceparent of the request's header. Set it as
// Options.Handshake.ConnContext of the router, or call it there.
func ConnContext(req *http.Request) context.Context {
	ctx := req.Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = format.Extract(ctx, propagation.HeaderCarrier(req.Header))
	}
	return trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
}

// format reads and writes traceparent.
var format propagation.TraceContext

const traceparent = "traceparent"

type tracer struct {
	trace.Tracer
	public bool
}

// handle is middleware.
func (t *tracer) handle(next router.Handler) router.Handler {
	return func(c *router.Context) error {
		ctx := c.Detach()
		opts := []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(semconv.RPCSystemNameKey.String(system), semconv.RPCMethod(c.Type())),
		}
		if handshake := trace.SpanContextFromContext(ctx); handshake.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: handshake}))
		}
		parent := remote(c)
		switch {
		case parent.IsValid() && t.public:
			opts = append(opts, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: parent}))
		case parent.IsValid():
			ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
		default:
			opts = append(opts, trace.WithNewRoot())
		}
		ctx, span := t.Start(ctx, c.Type(), opts...)
		returned := false
		defer func() {
			if !returned {
				span.SetStatus(codes.Error, "panic")
				span.SetAttributes(semconv.RPCResponseStatusCode(string(errors.Internal)))
			}
			span.End()
		}()
		c.SetValues(ctx)
		err := next(c)
		returned = true
		if err != nil {
			code := errors.CodeOf(err)
			span.SetAttributes(semconv.RPCResponseStatusCode(string(code)))
			if faulty(code) {
				span.SetStatus(codes.Error, "") // without the text, which may quote what the client sent
			}
		}
		return err
	}
}

// faulty reports whether the server is at fault for an error.
func faulty(code errors.Code) bool {
	switch code {
	case errors.Internal, errors.Unavailable, errors.DeadlineExceeded:
		return true
	}
	return false
}

// meta is the meta of a message, of which clients and other processes choose the content.
type meta interface {
	Meta(name string, v any) (bool, error)
}

// remote returns what the traceparent of a message says.
func remote(m meta) trace.SpanContext {
	var parent string
	if ok, err := m.Meta(traceparent, &parent); !ok || err != nil {
		return trace.SpanContext{}
	}
	ctx := format.Extract(context.Background(), propagation.MapCarrier{traceparent: parent})
	return trace.SpanContextFromContext(ctx)
}

// publishMeta is the meta of what is published within a span.
func publishMeta(ctx context.Context) router.Meta {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return nil
	}
	carrier := make(propagation.MapCarrier)
	format.Inject(ctx, carrier)
	return router.Meta{traceparent: carrier[traceparent]}
}

// delivered makes a span for a message of the broker that is part of a sampled trace.
func (t *tracer) delivered(d router.Delivery) {
	parent := remote(d)
	if !parent.IsSampled() {
		return
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parent)
	attrs := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName("deliver"),
		attribute.Int("wskit.members", d.Members),
	}
	if d.Topic != "" {
		attrs = append(attrs, semconv.MessagingDestinationName(d.Topic))
	}
	_, span := t.Start(ctx, "deliver "+d.Type(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(d.Began), trace.WithAttributes(attrs...))
	span.End()
}
