package docs_test

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/router"
)

// The code of contract.md.

func serveContract(mux *http.ServeMux, r *router.Router) error {
	c, err := contract.Of(r, contract.Options{Title: "Chat"}) // when all types are registered
	if err != nil {
		return err
	}
	mux.Handle("/contract/", c) // contract.d.ts, schema.json, asyncapi.json
	return nil
}

// contractFlags is the beginning of an application's main.
func contractFlags() {
	contract.Flags(flag.CommandLine, func() (*contract.Contract, error) {
		return contract.Of(newRouter(), contract.Options{Title: "Chat"})
	})
	flag.Parse()
}

// Color is written and read by its own methods, which say nothing of its form.
type Color struct{ text string }

func (c Color) MarshalJSON() ([]byte, error)  { return []byte(`"` + c.text + `"`), nil }
func (c *Color) UnmarshalJSON(b []byte) error { c.text = strings.Trim(string(b), `"`); return nil }

func withColors() contract.Options {
	o := contract.Options{Types: map[reflect.Type]contract.Type{
		reflect.TypeFor[Color](): {Schema: map[string]any{"type": "string", "pattern": "^#[0-9a-f]{6}$"}, TypeScript: "string"},
	}}
	return o
}

func TestContractPage(t *testing.T) {
	_ = contractFlags // the flags of a test are others
	mux := http.NewServeMux()
	if err := serveContract(mux, newRouter()); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/contract/contract.d.ts", nil))
	if !strings.Contains(answer.Body.String(), `"order.find": { request: Find; reply: Order`) {
		t.Errorf("the contract is\n%s", answer.Body)
	}

	r := router.New()
	router.On(r, "color.set", func(*router.Context, Color) error { return nil })
	if _, err := contract.Of(r); err == nil || !strings.Contains(err.Error(), "Color") {
		t.Errorf("a type with methods of its own: %v", err)
	}
	if _, err := contract.Of(r, withColors()); err != nil {
		t.Error(err)
	}
}
