package router

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"
)

// RouteKind is the kind of a registration.
type RouteKind string

const (
	// KindEvent is a message from clients that is not answered, see [On].
	KindEvent RouteKind = "event"
	// KindRequest is a message from clients that is answered, see [RPC].
	KindRequest RouteKind = "request"
	// KindDeclared is an event that the server sends, see [Declare].
	KindDeclared RouteKind = "declared"
	// KindQuestion is a message that the server sends and a client answers, see [DeclareQuestion].
	KindQuestion RouteKind = "question"
)

// RouteInfo describes a registered type.
type RouteInfo struct {
	// Type is the message type, with the prefix of its group.
	Type string
	// Kind says who sends it, and whether it is answered.
	Kind RouteKind
	// Group is the prefix of its group; empty: none.
	Group string
	// Message is the Go type of the payload.
	Message reflect.Type
	// ReplyType is the type of a request's reply. The answer to a question is $ws:answer.
	ReplyType string
	// Reply is the Go type of the payload of a request's reply, or of a question's answer.
	Reply reflect.Type
	// Progress is the Go type of RouteOptions.Progress; nil: none.
	Progress reflect.Type
	// Timeout is the maximum time for a message, or for the answer to a question; 0: no limit.
	Timeout time.Duration
	// MaxPayload is the size of the largest frame, in bytes; 0 for what the server sends.
	MaxPayload int
	// Concurrent, Exempt, Silent and Strict are those of RouteOptions, also if set for a
	// group or, with Options.Strict, for the router. Strict is also that of answers to questions.
	Concurrent, Exempt, Silent, Strict bool
	// PayloadOptional says that a frame needs no payload, and AnswerOptional that the answer to a
	// question needs none.
	PayloadOptional, AnswerOptional bool
	// Doc is the Doc of RouteOptions, EventOptions or QuestionOptions.
	Doc string
	// Place is the file and line of the registration.
	Place string
}

// Routes lists all registered types, in the order of their names. The protocol's own types are
// not in the list.
func (r *Router) Routes() []RouteInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]RouteInfo, 0, len(r.routes))
	for _, rt := range r.routes {
		list = append(list, rt.info())
	}
	for _, d := range r.declared() {
		list = append(list, d.info())
	}
	slices.SortFunc(list, func(a, b RouteInfo) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return list
}

func (d *declared) info() RouteInfo {
	i := RouteInfo{
		Type: d.typ, Kind: KindDeclared, Group: d.group.prefix, Message: d.of, PayloadOptional: d.shape.Empty,
		Doc: d.doc, Place: d.place,
	}
	if d.answer != nil {
		i.Kind, i.Reply, i.Timeout = KindQuestion, d.answerOf, d.timeout
		i.AnswerOptional, i.Strict = d.answer.Optional, d.answer.Strict()
	}
	return i
}

func (rt *route) info() RouteInfo {
	opts := &rt.group.router.opts
	i := RouteInfo{
		Type: rt.typ, Kind: KindEvent, Group: rt.group.prefix, Message: rt.message, PayloadOptional: rt.optional,
		Timeout: timeoutOf(rt, 0, opts.RequestTimeout), MaxPayload: cmp.Or(rt.opts.MaxPayload, opts.Limits.MaxPayload),
		Concurrent: rt.opts.Concurrent, Exempt: rt.exempt(), Silent: rt.opts.Silent, Strict: rt.opts.Strict,
		Doc: rt.opts.Doc, Place: rt.place,
	}
	if rt.request {
		i.Kind, i.ReplyType, i.Reply = KindRequest, rt.opts.Reply, rt.reply
	}
	if rt.opts.Progress != nil {
		i.Progress = reflect.TypeOf(rt.opts.Progress)
	}
	return i
}
