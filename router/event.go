package router

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router/internal/codec"
	"github.com/wskit/wskit/router/internal/testmode"
)

// Event is an event that the server sends, with the Go type of its payload. [Declare] makes it.
// Its methods may be called from any goroutine.
type Event[T any] struct{ typ string }

// EventOptions configure a declared event.
type EventOptions struct {
	// Doc describes the event in one line, for Router.Routes.
	Doc string
}

// Sender is the target of [Event.Send]: a [Conn], or the [Context] of a message from it.
type Sender interface {
	Send(typ string, payload any, opts ...SendOptions) error
}

// Publisher is the source of [Event.PublishFrom]: a [Router] or a [Conn].
type Publisher interface {
	Publish(ctx context.Context, topic, typ string, payload any, opts ...PublishOptions) error
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
	d.doc = oneOf("the event "+strconv.Quote(d.typ), opts).Doc
	d.register()
	return Event[T]{d.typ}
}

// Send sends the event to one client. See [Conn.Send] and [Context.Send].
func (e Event[T]) Send(to Sender, payload T, opts ...SendOptions) error {
	return to.Send(e.typ, payload, opts...)
}

// Publish sends the event to the subscribers of a topic, from a handler. See
// [Context.Publish].
func (e Event[T]) Publish(c *Context, topic string, payload T, opts ...PublishOptions) error {
	return c.Publish(topic, e.typ, payload, opts...)
}

// PublishFrom sends the event to the subscribers of a topic, from outside of a handler. See
// [Router.Publish] and [Conn.Publish].
func (e Event[T]) PublishFrom(ctx context.Context, from Publisher, topic string, payload T, opts ...PublishOptions) error {
	return from.Publish(ctx, topic, e.typ, payload, opts...)
}

// SendTo sends the event to the connections of a target. See [Target.Send].
func (e Event[T]) SendTo(ctx context.Context, to Target, payload T, opts ...PublishOptions) error {
	return to.Send(ctx, e.typ, payload, opts...)
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
}

// newDeclared is for Declare and DeclareQuestion, which call it: see caller.
func newDeclared(r Registrar, typ string, of reflect.Type) *declared {
	g := r.group()
	d := &declared{typ: g.prefix + typ, place: caller(), group: g, of: of}
	if err := checkType(d.typ); err != nil {
		panic(err.Error())
	}
	d.shape = codec.Encoded(of, "the payload", d.typ)
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

var (
	_ Sender    = (*Conn)(nil)
	_ Sender    = (*Context)(nil)
	_ Publisher = (*Router)(nil)
	_ Publisher = (*Conn)(nil)
)
