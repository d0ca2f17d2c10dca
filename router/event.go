package router

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/testmode"
)

// Event is an event that the server sends, with the Go type of its payload. [Declare] makes it.
// Its methods may be called from any goroutine.
type Event[T any] struct {
	typ    string
	router *Router
}

// EventOptions configure a declared event.
type EventOptions struct {
	// Doc describes the event in one line, for Router.Routes.
	//
	// Default: none.
	Doc string
}

// Receiver is where [Event.Send] sends an event: a [Conn], or a [Target] such as Router.User.
type Receiver interface {
	sendEvent(ctx context.Context, typ string, payload any, opts []PublishOptions) error
}

// Declare declares events that the server sends, and the type of their payload:
//
//	message := router.Declare[Message](r, "chat.message")
//	…
//	return message.Publish(c, "room:"+m.Room, Message{From: c.Identity.User, Text: m.Text})
//
// Router.Routes lists it. Send and Publish of the router and its connections then return an
// error for this type with a payload of another Go type than T, and nothing is sent; in a test
// with package routertest that fails the test. Types that are not declared can have any payload.
//
// r is the router or a group, whose prefix is put before the type. A message from clients may
// have the same type; On and RPC register that. Declare panics if the event is declared already,
// if its type is reserved or does not have 1 to 128 bytes, if T can never be encoded as JSON, if
// opts has more than one element, and once the router has served a connection.
func Declare[T any](r Registrar, typ string, opts ...EventOptions) Event[T] {
	d := newDeclared(r, typ, reflect.TypeFor[T]())
	d.doc = given.Must("router", "the event "+strconv.Quote(d.typ), opts).Doc
	d.register()
	return Event[T]{d.typ, d.group.router}
}

// Publish sends the event to the subscribers of a topic, from a handler or from outside of one: ctx is the [Context] of
// a message or any other. See [Context.Publish] and [Router.Publish].
func (e Event[T]) Publish(ctx context.Context, topic string, payload T, opts ...PublishOptions) error {
	switch k, ok := ctx.(*Context); {
	case e.router == nil:
		return errNotDeclared
	case ok && k.conn.router == e.router:
		return k.Publish(topic, e.typ, payload, opts...)
	default:
		return e.router.Publish(ctx, topic, e.typ, payload, opts...)
	}
}

// Send sends the event to one connection, or to those of a target, in all processes:
//
//	err := said.Send(c, r.User(c.Identity.Tenant, m.To), Said{m.Text})
//
// See [Conn.Send], for which PublishOptions may have a Meta alone, and [Target.Send].
func (e Event[T]) Send(ctx context.Context, to Receiver, payload T, opts ...PublishOptions) error {
	if e.router == nil {
		return errNotDeclared
	}
	return to.sendEvent(ctx, e.typ, payload, opts)
}

var errNotDeclared = errors.Internal.New("router: the Event was not declared; make it with router.Declare")

func (t Target) sendEvent(ctx context.Context, typ string, payload any, opts []PublishOptions) error {
	return t.Send(ctx, typ, payload, opts...)
}

func (c *Conn) sendEvent(ctx context.Context, typ string, payload any, opts []PublishOptions) error {
	o, err := given.Options("router", "the call", opts)
	switch {
	case err != nil:
		return err
	case o.Overflow != OverflowDisconnect || o.Key != "" || o.Except != "" || o.ID != "":
		return errors.Internal.Errorf("router: PublishOptions for one connection has more than a Meta; remove the rest")
	}
	if k, ok := ctx.(*Context); ok && k.conn == c {
		return k.Send(typ, payload, SendOptions{Meta: o.Meta})
	}
	return c.Send(typ, payload, SendOptions{Meta: o.Meta})
}

// declared is a declared event or question, as the router keeps it.
type declared struct {
	typ   string
	place string // of the declaration, in the source
	group *Group
	of    reflect.Type
	shape codec.Shape
	doc   string

	// of a question; nil for an event
	answer   *codec.Shape
	answerOf reflect.Type
	timeout  time.Duration // 0: none

	decoder func() codec.Shape // of payloads that come as JSON; it panics if the Go type cannot be decoded
}

// newDeclared is for Declare and DeclareQuestion, which call it: see caller.
func newDeclared(r Registrar, typ string, of reflect.Type) *declared {
	g := r.group()
	d := &declared{typ: g.prefix + typ, place: caller(), group: g, of: of}
	if err := checkType(d.typ); err != nil {
		panic(err.Error())
	}
	d.shape = codec.Encoded(of, "the payload", d.typ)
	d.decoder = sync.OnceValue(func() codec.Shape { return codec.Decoded(of, "the payload", d.typ, true) })
	return d
}

// kind is a word for messages.
func (d *declared) kind() string {
	if d.answer != nil {
		return "question"
	}
	return "event"
}

func (d *declared) register() {
	r := d.group.router
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mustNotServe(d.typ)
	events := maps.Clone(r.declared())
	if other, ok := events[d.typ]; ok {
		panic(fmt.Sprintf("router: the %s %q is declared twice, at %s and at %s; declare it once and share what that returns, or rename the type", d.kind(), d.typ, other.place, d.place))
	}
	if events == nil {
		events = make(map[string]*declared)
	}
	events[d.typ] = d
	r.events.Store(&events)
}

// declared returns what is declared by type, in a map that is never changed; nil: none.
func (r *Router) declared() map[string]*declared {
	if events := r.events.Load(); events != nil {
		return *events
	}
	return nil
}

// DecodeEvent decodes the payload of a declared event from JSON, for what other programs want to have published: the
// result has the Go type of the event, and its rules hold. The error is NOT_FOUND if the event is not declared, and
// INVALID_ARGUMENT, with [FieldError] in its details, for a payload that does not decode, breaks a rule, or has a
// member that the Go type does not have.
func (r *Router) DecodeEvent(typ string, payload []byte) (value any, err error) {
	d := r.declared()[typ]
	if d == nil || d.answer != nil {
		return nil, errors.NotFound.Errorf("the event %q is not declared", typ)
	}
	return d.decode(payload)
}

// decode decodes the payload of an event or a question from JSON.
func (d *declared) decode(payload []byte) (value any, err error) {
	defer func() {
		if v := recover(); v != nil { // of a type that cannot be decoded, or decodes itself
			value, err = nil, errors.Internal.Errorf("router: the %s %q cannot be decoded: %v; give its Go type an UnmarshalJSON that works, or none", d.kind(), d.typ, v)
		}
	}()
	if len(payload) == 0 {
		payload = nil // a frame without one
	}
	shape := d.decoder()
	v := reflect.New(d.of)
	if err := shape.Decode(v.Interface(), payload); err != nil {
		return nil, err
	}
	return v.Elem().Interface(), nil
}

// checkEvent returns an error if the type is declared and the payload does not fit it.
func (r *Router) checkEvent(typ string, payload any) error {
	events := r.events.Load()
	if events == nil {
		return nil
	}
	d := (*events)[typ]
	if d == nil {
		return nil
	}
	switch t := reflect.TypeOf(payload); {
	case d.answer != nil:
		return r.refuseToSend(errors.Internal.Errorf("router: %q is declared as a question at %s, but was sent as an event; use its Ask", d.typ, d.place))
	case t == d.of:
	case d.of.Kind() == reflect.Interface && (t == nil || t.Implements(d.of)):
	case t == nil && d.shape.Empty:
	default:
		return r.refuseToSend(errors.Internal.Errorf("router: the event %q is declared with %v at %s, but was sent with %T", d.typ, d.of, d.place, payload))
	}
	return r.checkDeclared(d, payload)
}

// checkDeclared returns an error if the payload of a declared event or question is not valid.
func (r *Router) checkDeclared(d *declared, payload any) error {
	if !d.shape.Validated || !r.validates() {
		return nil
	}
	v := reflect.New(d.of)
	v.Elem().Set(reflect.ValueOf(payload))
	if err := d.shape.Validate(v.Interface()); err != nil {
		return r.refuseToSend(errors.Internal.Wrap(err, "router: the "+d.kind()+" "+strconv.Quote(d.typ)+" is not valid"))
	}
	return nil
}

// validateReply is called for replies whose type has rules.
func (r *Router) validateReply(rt *route, s *codec.Shape, reply any) error {
	if !r.validates() {
		return nil
	}
	if err := s.Validate(reply); err != nil {
		return r.refuseToSend(errors.Internal.Wrap(err, "router: the reply of "+strconv.Quote(rt.typ)+" is not valid"))
	}
	return nil
}

func (r *Router) validates() bool { return r.opts.ValidateOutgoing || r.watched.Load() != nil }

// refuseToSend reports to the test that watches the router.
func (r *Router) refuseToSend(err error) error {
	if report := r.watched.Load(); report != nil {
		(*report)(err)
	}
	return err
}

func init() {
	testmode.Watch = func(r any, report func(error)) {
		if report == nil {
			r.(*Router).watched.Store(nil)
			return
		}
		r.(*Router).watched.Store(&report)
	}
}
