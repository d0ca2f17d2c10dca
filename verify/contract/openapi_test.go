package contract_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/router"
)

type address struct {
	Street string   `json:"street" validate:"required,max=40"`
	Next   *address `json:"next,omitempty"`
}

// The document of the server API is what a public validator takes for OpenAPI 3.1, and its schemas refuse what the server refuses.
func TestOpenAPI(t *testing.T) {
	r := router.New()
	router.Declare[address](r, "user.moved")
	router.Declare[struct{}](r, "nothing")
	router.Declare[map[string][]int](r, "a/b ~c")
	h := api.Handler(r, api.Options{Authorize: func(*http.Request) (api.Grant, error) { return api.Grant{Name: "test"}, nil }})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/openapi.json", nil))
	document := w.Body.Bytes()
	var got struct {
		Valid   bool
		Version string
		Errors  json.RawMessage
	}
	if err := json.Unmarshal(node(t, document, "openapi.mjs"), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Valid || got.Version != "3.1" {
		t.Fatalf("version %q: %s\n%s", got.Version, got.Errors, document)
	}

	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(document)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("openapi.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("openapi.json#/components/schemas/call.event.publish")
	if err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]bool{
		`{"topic":"a","event":"user.moved","data":{"street":"x","next":{"street":"y"}}}`: true,
		`{"topic":"a","event":"user.moved","data":{"street":"x","next":{"street":""}}}`:  false,
		`{"topic":"a","event":"user.moved","data":{}}`:                                   false,
		`{"topic":"a","event":"other"}`:                                                  false,
		`{"topic":"a","event":"nothing"}`:                                                true,
		`{"topic":"a","event":"a/b ~c","data":{"x":[1]}}`:                                true,
		`{"topic":"a","event":"a/b ~c","data":{"x":["1"]}}`:                              false,
		`{"event":"nothing"}`:                                                            false,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(params))
		if err != nil {
			t.Fatal(err)
		}
		if got := schema.Validate(value) == nil; got != want {
			t.Errorf("the schema accepts %s: %v, want %v", params, got, want)
		}
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/v1/publish", strings.NewReader(params))
		req.Header.Set("Content-Type", "application/json")
		if h.ServeHTTP(w, req); (w.Code == http.StatusOK) != want {
			t.Errorf("the server answers %s with %d %s", params, w.Code, w.Body)
		}
	}
}
