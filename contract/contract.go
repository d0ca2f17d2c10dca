// Package contract describes the messages of a router to its clients: as TypeScript, as JSON
// Schema and as AsyncAPI 3.0. It reads the routes of the running router, not their source.
//
//	c, err := contract.Of(r, contract.Options{Title: "Chat"})
//	…
//	mux.Handle("/contract/", c) // contract.d.ts, schema.json and asyncapi.json
//
// With [Flags], an application's own binary writes the documents, and compares them with committed
// files. docs/contract.md says how each Go type and each rule in a validate tag is described.
package contract

import (
	"errors"
	"reflect"

	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/router"
)

// Options configure a contract. The zero value has the defaults.
type Options struct {
	// Title names the application, in the AsyncAPI document. Default: "WebSocket API".
	Title string
	// Version is that of the application, in the AsyncAPI document. Default: "0.0.0".
	Version string
	// URL is that of the WebSocket, such as wss://chat.example.com/ws, in the AsyncAPI document.
	// Default: not in the document.
	URL string
	// Authenticated says that clients connect with a token, see ingress.Token.
	//
	// Default: false.
	Authenticated bool
	// Limits returns the rate limits of a type of message from clients, for the AsyncAPI
	// document, as a value to be encoded as JSON: the routes do not know what middleware limits.
	// It may call rules.Rules.Effective. nil: none. Default: none are in the document.
	Limits func(typ string) any
	// Types describe Go types whose form in JSON is not known: those with methods like
	// MarshalJSON, and interfaces. A description replaces what is known of other types.
	//
	// Default: none.
	Types map[reflect.Type]Type
}

// Type describes the JSON of a Go type.
type Type struct {
	// Schema is a JSON Schema with the keywords that draft 7 and draft 2020-12 share, such as
	// map[string]any{"type": "string", "pattern": "^#[0-9a-f]{6}$"}.
	Schema map[string]any
	// TypeScript is a type expression, such as `"red" | "green"`. Default: unknown.
	TypeScript string
}

// Contract describes the messages of a router as they were when [Of] was called. Its methods may
// be called concurrently.
type Contract struct {
	opts     Options
	messages []message
	defs     []*def

	typescript, schema, asyncapi []byte
}

// Of describes the messages of a router. Call it when all types are registered.
//
// The error names each type that cannot be described, where it was registered, and what to do.
func Of(r *router.Router, options ...Options) (*Contract, error) {
	opts := given.Must("contract", "Of", options)
	if opts.Title == "" {
		opts.Title = "WebSocket API"
	}
	if opts.Version == "" {
		opts.Version = "0.0.0"
	}
	w := newWalker(opts.Types)
	c := &Contract{opts: opts}
	for _, i := range r.Routes() {
		c.messages = append(c.messages, w.message(i))
	}
	if len(w.faults) > 0 {
		return nil, errors.Join(w.faults...)
	}
	c.defs = w.defs
	c.typescript = c.renderTypeScript()
	var err error
	if c.schema, err = c.renderSchema(); err == nil {
		c.asyncapi, err = c.renderAsyncAPI()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// TypeScript returns a module of types. The interface Contract in it has all messages by type.
func (c *Contract) TypeScript() []byte { return c.typescript }

// JSONSchema returns a schema of draft 2020-12 with a definition for each payload, such as
// #/$defs/request:room.join for requests of the type "room.join". The other words before the colon
// are reply, progress, send, event, question and answer.
func (c *Contract) JSONSchema() []byte { return c.schema }

// AsyncAPI returns a document of AsyncAPI 3.0, as JSON.
func (c *Contract) AsyncAPI() []byte { return c.asyncapi }

// message is a registration with the forms of its payloads.
type message struct {
	router.RouteInfo
	payload form // of a request, an event in either direction, or a question
	reply   form // of a request, or the answer of a question

	progress *form // nil: none is declared
}

func (w *walker) message(i router.RouteInfo) message {
	m := message{RouteInfo: i}
	in, out := mode{strict: i.Strict}, mode{out: true}
	switch i.Kind {
	case router.KindEvent, router.KindRequest:
		m.payload = w.top(i, "the payload", i.Message, in, i.PayloadOptional)
	default:
		m.payload = w.top(i, "the payload", i.Message, out, false)
	}
	switch i.Kind {
	case router.KindRequest:
		m.reply = w.top(i, "the reply", i.Reply, out, false)
	case router.KindQuestion:
		m.reply = w.top(i, "the answer", i.Reply, in, i.AnswerOptional)
	}
	if i.Progress != nil {
		p := w.top(i, "the progress", i.Progress, out, false)
		m.progress = &p
	}
	return m
}
