package router_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// A type that can never be decoded or encoded is found when it is registered, as payload,
// reply, progress and declared event, and the panic says which and what to change.
func TestTypesThatJSONCannotHold(t *testing.T) {
	t.Parallel()
	type timed struct {
		Took time.Duration `json:"took"`
	}
	type embedding struct {
		said
		Done chan bool
	}
	for _, tc := range []struct {
		name string
		says []string
		wire func(*router.Router)
	}{
		{"event", []string{`payload of "a"`, "decoded", "took: time.Duration", "milliseconds"}, func(r *router.Router) {
			router.On(r, "a", func(*router.Context, timed) error { return nil })
		}},
		{"request", []string{`payload of "g.a"`, "Done: chan bool", `json:"-"`}, func(r *router.Router) {
			router.RPC(r.Group("g."), "a", func(*router.Context, embedding) (int, error) { return 0, nil })
		}},
		{"reply", []string{`reply of "a"`, "encoded", "[].Done: chan bool"}, func(r *router.Router) {
			router.RPC(r, "a", func(*router.Context, struct{}) ([]*embedding, error) { return nil, nil })
		}},
		{"progress", []string{`progress of "a"`, "encoded", "func()"}, func(r *router.Router) {
			router.RPC(r, "a", ok, router.RouteOptions{Progress: func() {}})
		}},
		{"declared", []string{`payload of "a"`, "encoded", "complex128"}, func(r *router.Router) {
			router.Declare[map[string]complex128](r, "a")
		}},
		{"declared with tags that make no sense", []string{`payload of "a"`, "RegisterValidation"}, func(r *router.Router) {
			router.Declare[struct {
				A string `validate:"requird"`
			}](r, "a")
		}},
		{"progress of an event", []string{`"a" is an event`, "RPC"}, func(r *router.Router) {
			router.On(r, "a", none, router.RouteOptions{Progress: 1})
		}},
		{"size", []string{`MaxPayload of "a"`, "in bytes"}, func(r *router.Router) {
			router.On(r, "a", none, router.RouteOptions{MaxPayload: -1})
		}},
		{"size of a group", []string{`MaxPayload of the group "g."`, "in bytes"}, func(r *router.Router) {
			r.Group("g.", router.RouteOptions{MaxPayload: -1})
		}},
		{"reply of a group", []string{`group "g."`, "to its routes"}, func(r *router.Router) {
			r.Group("g.", router.RouteOptions{Reply: "done"})
		}},
		{"prefix of the protocol", []string{"reserved"}, func(r *router.Router) { router.On(r.Group("$ws:"), "a", none) }},
		{"declared type of the protocol", []string{"reserved"}, func(r *router.Router) { router.Declare[int](r, "ERROR") }},
		{"two options of an event", []string{"merge them"}, func(r *router.Router) {
			router.Declare[int](r, "a", router.EventOptions{}, router.EventOptions{})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				v, _ := recover().(string)
				for _, want := range append(tc.says, "router: ") {
					if !strings.Contains(v, want) {
						t.Errorf("the panic %q does not say %q", v, want)
					}
				}
			}()
			tc.wire(router.New())
		})
	}
}

// flags may all be left out; so may the whole payload.
type flags struct {
	Limit int     `json:"limit,omitempty" validate:"omitempty,min=1"`
	After *string `json:"after"`
	Deep  struct {
		Text string `json:"text"`
	} `json:"deep,omitzero"`
}

// A payload of which everything is optional may be left out, and is then as if it were
// empty; one that would not be valid may not, nor one with a field that is not optional.
func TestPayloadsThatMayBeLeftOut(t *testing.T) {
	t.Parallel()
	type required struct {
		Room string `json:"room,omitempty" validate:"required"`
	}
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "flags", func(_ *router.Context, f flags) (said, error) {
			if f != (flags{}) {
				return said{"something"}, nil
			}
			return said{"nothing"}, nil
		})
		router.RPC(r, "required", func(*router.Context, required) (struct{}, error) { return struct{}{}, nil })
	})
	p := s.dial()
	for _, tc := range []struct{ typ, payload, want string }{
		{"flags", ``, "reply 1 nothing"},
		{"flags", `,"payload":null`, "reply 1 nothing"},
		{"flags", `,"payload":{}`, "reply 1 nothing"},
		{"flags", `,"payload":{"limit":3}`, "reply 1 something"},
		{"flags", `,"payload":{"limit":-3}`, "RPC_ERROR 1 INVALID_ARGUMENT"},
		{"flags", `,"payload":[]`, "RPC_ERROR 1 INVALID_ARGUMENT"},
		{"required", ``, "RPC_ERROR 1 INVALID_ARGUMENT"},
		{"echo", ``, "RPC_ERROR 1 INVALID_ARGUMENT"},
	} {
		p.write(textFrame(`{"type":"` + tc.typ + `","meta":{"correlationId":"1"}` + tc.payload + `}`))
		if got := p.next(); got != tc.want {
			t.Errorf("%s%s: got %q, want %q", tc.typ, tc.payload, got, tc.want)
		}
	}
	p.bye()
	s.recovered()
}

// Members that the type does not have are refused by a route, a group or a router that is
// strict, at any depth, and the answer names them; elsewhere they are ignored.
func TestStrict(t *testing.T) {
	t.Parallel()
	type order struct {
		Items []said `json:"items"`
	}
	handle := func(*router.Context, order) (struct{}, error) { return struct{}{}, nil }
	register := func(r *router.Router) {
		router.RPC(r, "plain", handle)
		router.RPC(r, "strict", handle, router.RouteOptions{Strict: true})
		router.RPC(r.Group("g.", router.RouteOptions{Strict: true}), "a", handle)
	}
	for _, everywhere := range []bool{false, true} {
		s := serveSocket(t, router.Options{Strict: everywhere}, register)
		p := s.dial()
		for typ, strict := range map[string]bool{"plain": everywhere, "strict": true, "g.a": true} {
			for payload, path := range map[string]string{
				`{"items":[{"text":"a"}]}`:           "",
				`{"items":[],"itmes":[]}`:            "itmes",
				`{"items":[{"text":"a","txt":"b"}]}`: "items.0.txt",
			} {
				p.write(textFrame(`{"type":"` + typ + `","meta":{"correlationId":"1","own":1},"payload":` + payload + `,"further":1}`))
				f, err := p.read()
				if err != nil {
					t.Fatal(err)
				}
				if refused := strict && path != ""; !refused {
					if f.String() != "reply 1 " {
						t.Errorf("%s %s: got %s", typ, payload, f)
					}
					continue
				}
				var answer struct {
					Payload struct {
						Code    string
						Details json.RawMessage
					}
				}
				want := `{"fields":[{"path":"` + path + `","rule":"unknown"}]}`
				if err := json.Unmarshal(f.payload, &answer); err != nil || answer.Payload.Code != "INVALID_ARGUMENT" || !bytes.Equal(answer.Payload.Details, []byte(want)) {
					t.Errorf("%s %s: got %s, want details %s", typ, payload, f.payload, want)
				}
			}
		}
		p.bye()
		s.recovered()
	}
}

type wrapped[T any] struct {
	Item T      `json:"item"`
	Name string `json:"name" validate:"required"`
}

// The details name the fields of a payload whose type has no name, or a name with dots.
func TestPathsOfTypesWithoutAPlainName(t *testing.T) {
	t.Parallel()
	type item struct {
		ID string `json:"id" validate:"required"`
	}
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.RPC(r, "unnamed", func(*router.Context, struct {
			item
			Name string `json:"name" validate:"required"`
			Item item   `json:"item"`
		}) (struct{}, error) {
			return struct{}{}, nil
		})
		router.RPC(r, "generic", func(*router.Context, *wrapped[item]) (struct{}, error) { return struct{}{}, nil })
	})
	p := s.dial()
	for typ, want := range map[string]string{
		"unnamed": `{"fields":[{"path":"id","rule":"required"},{"path":"name","rule":"required"},{"path":"item.id","rule":"required"}]}`,
		"generic": `{"fields":[{"path":"item.id","rule":"required"},{"path":"name","rule":"required"}]}`,
	} {
		p.write(textFrame(`{"type":"` + typ + `","meta":{"correlationId":"1"},"payload":{}}`))
		f, err := p.read()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(f.payload, []byte(want)) {
			t.Errorf("%s: got %s, want details %s", typ, f.payload, want)
		}
	}
	p.bye()
	s.recovered()
}

type pageOf[T any] struct {
	Items map[string]T `json:"items" validate:"dive,required"`
}

type withEmbedded struct {
	pageEnd
	Name string `json:"name" validate:"required"`
}

type pageEnd struct {
	End int `json:"end" validate:"min=1"`
}

// The message of a payload that is not valid names the first field, as it is on the wire, and no key that the client has
// made up: it is logged.
func TestTheMessageNamesTheField(t *testing.T) {
	t.Parallel()
	r := router.New()
	router.RPC(r, "page", func(*router.Context, pageOf[string]) (struct{}, error) { return struct{}{}, nil })
	router.RPC(r, "end", func(*router.Context, withEmbedded) (struct{}, error) { return struct{}{}, nil })
	c := routertest.New(t, r).Dial()
	for _, tc := range []struct{ typ, payload, want string }{
		{"page", `{"items":{"s3cret":""}}`, "payload is not valid: items does not pass required"},
		{"end", `{"end":0,"name":"x"}`, "payload is not valid: end does not pass min"},
		{"end", `{"end":1}`, "payload is not valid: name does not pass required"},
	} {
		if f := c.Request(tc.typ, jsontext.Value(tc.payload)).ExpectError(errors.InvalidArgument); f.Message != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.typ, tc.payload, f.Message, tc.want)
		}
	}
}
