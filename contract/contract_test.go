package contract_test

import (
	stdjson "encoding/json"
	"image"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/router"
)

type (
	Base struct {
		ID string `json:"id" validate:"required"`
	}
	Tree struct {
		Value int     `json:"value,omitempty"`
		Kids  []*Tree `json:"kids"`
	}
	List        []List
	Dict        map[string]Dict
	Page[T any] struct {
		Items []T     `json:"items"`
		Next  *string `json:"next"`
	}
	Pair[A, B any] struct {
		A A
		B B
	}
	Color  struct{ R, G, B byte }
	Money  int64
	Shape  interface{ Area() float64 }
	Status string
)

func (Color) MarshalText() ([]byte, error)  { return nil, nil }
func (*Color) UnmarshalText([]byte) error   { return nil }
func (Money) MarshalJSON() ([]byte, error)  { return nil, nil }
func (*Money) UnmarshalJSON(b []byte) error { return nil }

// of returns the contract of the registrations.
func of(t *testing.T, opts contract.Options, register func(*router.Router)) *contract.Contract {
	t.Helper()
	r := router.New()
	register(r)
	c, err := contract.Of(r, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// send registers a message from clients, and declare an event from the server.
func send[T any](r *router.Router) {
	router.On(r, "it", func(*router.Context, T) error { return nil })
}

func declare[T any](r *router.Router) { router.Declare[T](r, "it") }

// What becomes of each Go type, from clients and to clients.
func TestTypeScriptOfGoTypes(t *testing.T) {
	for _, tc := range []struct {
		name     string
		register func(*router.Router)
		want     string // what has to be in the module; … is anything
	}{
		{"basic types", send[struct {
			Text   string
			On     bool
			Float  float32
			Int    int64
			Uint   uint8
			Quoted int64 `json:",string"`
			Status Status
		}], `"it": { Text: string; On: boolean; Float: number; Int: number; Uint: number; Quoted: string; Status: string; };`},
		{"lists and maps", send[struct {
			Bytes []byte
			Hash  [4]byte
			Two   [2]int
			Opt   []*int
			Map   map[int]bool
			Union []string `validate:"dive,oneof=a b"`
		}], `"it": { Bytes: string; Hash: string; Two: number[]; Opt: (number | null)[]; Map: { [key: string]: boolean }; Union: ("a" | "b")[]; };`},
		{"times, text and anything", send[struct {
			At    time.Time
			Color Color
			Any   any
			Raw   jsontext.Value
			Old   stdjson.RawMessage
		}], `"it": { At: string; Color: string; Any: unknown; Raw: unknown; Old: unknown; };`},
		{"what may be left out, from clients", send[struct {
			A string  `json:"a,omitempty"`
			B int     `json:"b,omitzero"`
			C *string `json:"c"`
			D *string `json:"d" validate:"required"`
			E string  `json:"e,omitempty" validate:"required"`
			F string  `json:"-"`
			g string
		}], `"it": { a?: string; b?: number; c?: string | null; d: string; e: string; };`},
		{"what may be left out, to clients", declare[struct {
			A string   `json:"a,omitempty"`
			C *string  `json:"c"`
			D *string  `json:"d,omitempty"`
			E []string `json:"e"`
			F string   `json:"not a name"`
		}], `"it": { a?: string; c: string | null; d?: string; e: string[]; "not a name": string; };`},
		{"embedded structs", declare[struct {
			Base
			*Tree
			Name string
		}], `"it": { id: string; value?: number; kids?: (Tree | null)[]; Name: string; };`},
		{"members without a field", declare[struct {
			A    int
			More map[string]int `json:",embed"`
		}], `"it": { A: number; [key: string]: unknown; };`},
		{"recursion", declare[Tree], `"it": Tree; … export interface Tree { value?: number; kids: (Tree | null)[]; }`},
		{"a recursive list", declare[List], `"it": List; … export type List = List[];`},
		{"a recursive map", declare[Dict], `"it": Dict; … export type Dict = { [key: string]: Dict };`},
		{"generic types", declare[Pair[Page[Tree], map[string]Color]], `export interface PairPageTreeMapStringColor { A: PageTree; B: { [key: string]: string }; }`},
		{"choices", send[struct {
			A string `json:"a" validate:"oneof=x 'y z'"`
			B int    `json:"b" validate:"oneof=1 2"`
			C string `json:"c,omitempty" validate:"omitempty,oneof=x y"`
			D string `json:"d" validate:"omitempty,oneof=x y"`
		}], `"it": { a: "x" | "y z"; b: 1 | 2; c?: "x" | "y"; d: "x" | "y" | ""; };`},
		{"a payload that may be left out", send[struct {
			A *int `json:"a"`
		}], `"it": { a?: number | null; } | undefined;`},
		{"no payload", send[struct{}], `"it": undefined;`},
		{"no payload, to clients", declare[struct{}], `"it": undefined;`},
		{"a payload that is null", declare[*Tree], `"it": Tree | null;`},
		{"a list as payload", send[[]int], `"it": number[] | undefined;`},
		{"requests", func(r *router.Router) {
			router.RPC(r, "get", func(*router.Context, Base) (struct{}, error) { return struct{}{}, nil },
				router.RouteOptions{Doc: "gets */ it", Progress: Tree{}})
		}, `/** gets *\/ it */ "get": { request: Base; reply: undefined; progress: Tree };`},
		{"questions", func(r *router.Router) {
			router.DeclareQuestion[Base, *bool](r, "sure")
		}, `questions: { "sure": { question: Base; answer: boolean | null | undefined }; };`},
		{"one Go type in both directions", func(r *router.Router) {
			router.RPC(r, "a", func(*router.Context, Base) (Base, error) { return Base{}, nil })
			router.RPC(r, "b", func(*router.Context, Page[Base]) (Page[Base], error) { return Page[Base]{}, nil })
		}, `"a": { request: Base; reply: Base; progress: never }; "b": { request: PageBaseInput; reply: PageBase; progress: never };`},
		{"one name in two packages", func(r *router.Router) {
			router.Declare[image.Point](r, "a")
			router.Declare[Point](r, "b")
		}, `"a": ImagePoint; "b": ContractTestPoint;`},
		{"a name of the module", declare[Contract], `"it": Contract2;`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := string(of(t, contract.Options{}, tc.register).TypeScript())
			rest, found := strings.Join(strings.Fields(got), " "), true
			for part := range strings.SplitSeq(tc.want, " … ") {
				if _, rest, found = strings.Cut(rest, part); !found {
					t.Fatalf("not in the module: %s\n%s", part, got)
				}
			}
		})
	}
}

type (
	Point    struct{ X int }
	Contract struct{ X int }
)

// The error names the type, the member, where it was registered, and the remedy.
func TestErrorsSayWhatCannotBeDescribed(t *testing.T) {
	r := router.New()
	router.On(r, "pay", func(*router.Context, struct {
		Items []struct{ Price Money }
	}) error {
		return nil
	})
	router.Declare[Money](r, "paid")
	router.On(r, "hidden", func(*router.Context, struct {
		A int    `json:"a"`
		B string `json:"-" validate:"required"`
	}) error {
		return nil
	})
	_, err := contract.Of(r)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`Items.[].Price in the payload of "pay"`, "contract_test.go:", "contract_test.Money", "Options.Types",
		`the payload of "paid"`, `B in the payload of "hidden"`, "remove the rule",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// Options.Types describe types with methods, interfaces, and others.
func TestGivenTypes(t *testing.T) {
	c := of(t, contract.Options{Types: map[reflect.Type]contract.Type{
		reflect.TypeFor[Money]():  {Schema: map[string]any{"type": "string", "pattern": "^[0-9]+$"}, TypeScript: "`${number}`"},
		reflect.TypeFor[Shape]():  {Schema: map[string]any{"type": "object"}, TypeScript: "{ area: number }"},
		reflect.TypeFor[Status](): {TypeScript: `"on" | "off"`},
	}}, declare[struct {
		Price  Money
		Shape  Shape
		Status Status
		All    []Status
	}])
	const want = "\"it\": { Price: `${number}`; Shape: { area: number } | null; Status: \"on\" | \"off\"; All: (\"on\" | \"off\")[]; };"
	if flat := strings.Join(strings.Fields(string(c.TypeScript())), " "); !strings.Contains(flat, want) {
		t.Errorf("not in the module: %s\n%s", want, c.TypeScript())
	}
	if !strings.Contains(string(c.JSONSchema()), `"pattern": "^[0-9]+$"`) {
		t.Errorf("the schema of the type is not in %s", c.JSONSchema())
	}
}

// The documents do not depend on the order of registration, and are the same each time.
func TestDocumentsAreDeterministic(t *testing.T) {
	registrations := []func(*router.Router){
		func(r *router.Router) { router.Declare[image.Point](r, "a") },
		func(r *router.Router) { router.Declare[Point](r, "b") },
		func(r *router.Router) { router.Declare[Page[Point]](r, "c") },
	}
	var first *contract.Contract
	for n := range 20 {
		c := of(t, contract.Options{}, func(r *router.Router) {
			for i := range registrations {
				registrations[((n%2+1)*i+n/2)%3](r)
			}
		})
		if first == nil {
			first = c
		}
		for i, of := range []func(*contract.Contract) []byte{(*contract.Contract).TypeScript, (*contract.Contract).JSONSchema, (*contract.Contract).AsyncAPI} {
			if string(of(c)) != string(of(first)) {
				t.Fatalf("document %d differs: %s", i, of(c))
			}
		}
	}
}

func TestServeHTTP(t *testing.T) {
	c := of(t, contract.Options{}, declare[Tree])
	get := func(method, path, etag string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, path, nil)
		req.Header.Set("If-None-Match", etag)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req)
		return w
	}
	for _, tc := range []struct{ path, media, document string }{
		{"/contract/contract.d.ts", "text/plain; charset=utf-8", string(c.TypeScript())},
		{"/schema.json", "application/schema+json", string(c.JSONSchema())},
		{"/x/asyncapi.json", "application/vnd.aai.asyncapi+json;version=3.0.0", string(c.AsyncAPI())},
	} {
		w := get("GET", tc.path, "")
		if w.Code != 200 || w.Header().Get("Content-Type") != tc.media || w.Body.String() != tc.document {
			t.Errorf("%s: %d %v %.40s", tc.path, w.Code, w.Header(), w.Body)
		}
		if again := get("GET", tc.path, w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() > 0 {
			t.Errorf("%s with its ETag: %d", tc.path, again.Code)
		}
		if post := get("POST", tc.path, ""); post.Code != 405 {
			t.Errorf("POST %s: %d", tc.path, post.Code)
		}
	}
	if w := get("GET", "/contract/", ""); w.Code != 404 {
		t.Errorf("/contract/: %d", w.Code)
	}
}

func TestCheck(t *testing.T) {
	c := of(t, contract.Options{}, declare[Tree])
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, document := range map[string][]byte{"contract.d.ts": c.TypeScript(), "schema.json": c.JSONSchema(), "asyncapi.json": c.AsyncAPI()} {
		if err := c.Check(write(name, string(document))); err != nil {
			t.Error(err)
		}
		if err := c.Check(write(name, strings.ReplaceAll(string(document), "\n", "\r\n"))); err != nil {
			t.Errorf("with line ends of Windows: %v", err)
		}
	}
	old := strings.Replace(string(c.TypeScript()), "kids: ", "children: ", 1)
	err := c.Check(write("old.d.ts", old))
	if err == nil {
		t.Fatal("no error for a file that differs")
	}
	for _, want := range []string{"old.d.ts", "-contract ts", "-   children: (Tree | null)[];", "+   kids: (Tree | null)[];"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n > 8 {
		t.Errorf("%d lines for one that differs: %v", n, err)
	}
	for _, name := range []string{"missing.d.ts", "contract.yaml"} {
		if err := c.Check(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
