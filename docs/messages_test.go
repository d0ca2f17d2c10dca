package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The types of messages.md, as they stand there.

type Names struct {
	Room   string
	User   string `json:"user"`
	Secret string `json:"-"`
	note   string
}

type Zero struct {
	Count int      `json:"count,omitempty"`
	Text  string   `json:"text,omitempty"`
	Total int      `json:"total,omitzero"`
	Tags  []string `json:"tags"`
	Rest  []string `json:"rest,omitempty"`
}

type Bytes struct {
	Data []byte   `json:"data"`
	Hash [4]byte  `json:"hash"`
	List []uint16 `json:"list"`
}

type Times struct {
	At     time.Time `json:"at"`
	TookMs int64     `json:"tookMs"`
}

type Numbers struct {
	ID    int64           `json:"id,string"`
	Price float64         `json:"price"`
	Any   any             `json:"any"`
	Exact jsontext.Value  `json:"exact"`
	ByID  map[int]float64 `json:"byId"`
}

type Base struct {
	ID string `json:"id"`
}

type Embedded struct {
	Base
	Name string `json:"name"`
}

type Page struct {
	Limit int     `json:"limit,omitempty" validate:"omitempty,min=1,max=100"`
	After *string `json:"after"`
}

// roundTrip sends what is in the page to a handler that replies with it.
func roundTrip[T any](want T, wire string) func(t *testing.T) string {
	return func(t *testing.T) string {
		r := router.New()
		got := make(chan T, 1)
		router.RPC(r, "echo", func(_ *router.Context, v T) (T, error) { got <- v; return v, nil })
		q := routertest.New(t, r).Dial().Request("echo", jsontext.Value(wire))
		reply := routertest.ExpectReply[jsontext.Value](q)
		if v := <-got; !reflect.DeepEqual(v, want) {
			t.Errorf("%s is decoded into %+v, want %+v", wire, v, want)
		}
		return string(reply)
	}
}

// What messages.md shows of types and their JSON is what the router decodes and encodes.
func TestMessagesPage(t *testing.T) {
	page := read(t, "messages.md")
	types := typesOf(t, "messages_test.go")
	after := "n42"
	for name, tc := range map[string]struct {
		wire string // as in the page, on one line
		echo func(*testing.T) string
	}{
		"Names": {`{"Room":"lobby","user":"ann"}`, roundTrip(Names{Room: "lobby", User: "ann", note: ""}, `{"Room":"lobby","user":"ann","room":"x","User":"x","Secret":"x","note":"x"}`)},
		"Zero":  {`{"count":0,"tags":[]}`, roundTrip(Zero{Tags: []string{}}, `{"count":0,"tags":[]}`)},
		"Bytes": {`{"data":"aGk=","hash":"AQIDBA==","list":[1,2]}`, roundTrip(Bytes{[]byte("hi"), [4]byte{1, 2, 3, 4}, []uint16{1, 2}}, `{"data":"aGk=","hash":"AQIDBA==","list":[1,2]}`)},
		"Times": {`{"at":"2026-11-22T09:00:00.5Z","tookMs":1500}`, roundTrip(Times{time.Date(2026, 11, 22, 9, 0, 0, 5e8, time.UTC), 1500}, `{"at":"2026-11-22T09:00:00.5Z","tookMs":1500}`)},
		"Numbers": {`{"id":"9007199254740993","price":0.1,"any":9007199254740992,"exact":9007199254740993,"byId":{"7":0.5}}`, roundTrip(
			Numbers{1<<53 + 1, 0.1, float64(1 << 53), jsontext.Value("9007199254740993"), map[int]float64{7: 0.5}},
			`{"id":"9007199254740993","price":0.1,"any":9007199254740993,"exact":9007199254740993,"byId":{"7":0.5}}`)},
		"Embedded": {`{"id":"7","name":"ann"}`, roundTrip(Embedded{Base{"7"}, "ann"}, `{"id":"7","name":"ann"}`)},
		"Page":     {`{"limit":20,"after":"n42"}`, roundTrip(Page{20, &after}, `{"limit":20,"after":"n42"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.echo(t); got != tc.wire {
				t.Errorf("%s is encoded as %s, want %s", name, got, tc.wire)
			}
			at := strings.Index(page, "type "+types[name]+"\n")
			if at < 0 {
				t.Fatalf("messages.md does not show this:\ntype %s", types[name])
			}
			if section, _, _ := strings.Cut(page[at:], "\n## "); !strings.Contains(section, "\n"+tc.wire+"\n") {
				t.Errorf("messages.md does not show %s below %s", tc.wire, name)
			}
		})
	}
}

// typesOf is the source of a file's types, without the keyword.
func typesOf(t *testing.T, file string) map[string]string {
	source := read(t, file)
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	types := make(map[string]string)
	for _, d := range parsed.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, s := range g.Specs {
				types[s.(*ast.TypeSpec).Name.Name] = source[fset.Position(s.Pos()).Offset:fset.Position(s.End()).Offset]
			}
		}
	}
	return types
}

func read(t *testing.T, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What the page says of payloads that are refused or left out.
func TestMessagesPageRefusals(t *testing.T) {
	r := router.New(router.Options{OnError: func(router.Fault) {}})
	router.RPC(r, "page", func(_ *router.Context, p Page) (int, error) { return p.Limit, nil })
	router.RPC(r, "zero", func(_ *router.Context, z Zero) (int, error) { return z.Count, nil })
	router.RPC(r, "strict", func(_ *router.Context, z Zero) (int, error) { return z.Count, nil }, router.RouteOptions{Strict: true})
	router.RPC(r, "nan", func(*router.Context, struct{}) (float64, error) { zero := 0.0; return zero / zero, nil })
	router.RPC(r, "utf8", func(*router.Context, struct{}) (string, error) { return "a\xff", nil })
	c := routertest.New(t, r).Dial()
	for _, tc := range []struct {
		typ, payload string
		code         errors.Code // empty: a reply
		rule         string
	}{
		{"page", ``, "", ""},
		{"page", `{}`, "", ""},
		{"page", `{"limit":0}`, "", ""},
		{"page", `{"limit":101}`, errors.InvalidArgument, `"path":"limit","rule":"max"`},
		{"zero", ``, errors.InvalidArgument, ""},
		{"zero", `{}`, "", ""},
		{"zero", `{"count":null}`, "", ""},
		{"zero", `{"count":"1"}`, errors.InvalidArgument, `"path":"count","rule":"type"`},
		{"zero", `{"count":1.5}`, errors.InvalidArgument, `"path":"count","rule":"type"`},
		{"zero", `{"cuont":1}`, "", ""},
		{"strict", `{"cuont":1}`, errors.InvalidArgument, `"path":"cuont","rule":"unknown"`},
		{"zero", `{"count":1,"count":2}`, errors.InvalidArgument, ""},
		{"nan", ``, errors.Internal, ""},
		{"utf8", ``, errors.Internal, ""},
	} {
		frame := `{"type":"` + tc.typ + `","meta":{"correlationId":"1"}`
		if tc.payload != "" {
			frame += `,"payload":` + tc.payload
		}
		c.SendRaw(frame + "}")
		if tc.code == "" {
			c.ExpectAny(tc.typ + ".reply")
			continue
		}
		f := routertest.ExpectFailure(c, "1")
		if f.Code != tc.code || !strings.Contains(string(f.Details), tc.rule) {
			t.Errorf("%s %s: got %+v", tc.typ, tc.payload, f)
		}
	}
}
