package contract_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/router"
)

// all has every kind of registration and option.
func all(t *testing.T, opts contract.Options) *contract.Contract {
	t.Helper()
	r := router.New()
	g := r.Group("room.", router.RouteOptions{Strict: true})
	router.RPC(g, "join", func(*router.Context, Tree) (Base, error) { return Base{}, nil }, router.RouteOptions{
		Reply: "joined", Doc: "joins a room", Progress: 0.5, MaxPayload: 4096, Timeout: 3 * time.Second, Concurrent: true,
	})
	router.On(g, "typing", func(*router.Context, struct{}) error { return nil }, router.RouteOptions{Silent: true, Exempt: true})
	router.Declare[Base](r, "room.joined", router.EventOptions{Doc: "to all members"})
	router.DeclareQuestion[Base, *Tree](r, "sure?", router.QuestionOptions{Timeout: time.Minute})
	router.Declare[Tree](r, "strange type/ñ ~%#\"")
	router.Declare[Tree](r, "strange type/ü ~%#\"")
	c, err := contract.Of(r, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var variants = map[string]contract.Options{
	"defaults": {},
	"all options": {
		Title: "Chat", Version: "1.2.3", URL: "wss://chat.example.com/ws", Authenticated: true,
		Limits: func(typ string) any { return map[string]int{"perMinute": len(typ)} },
	},
}

// The document is valid by the schema that AsyncAPI publishes.
func TestAsyncAPIIsValid(t *testing.T) {
	file := filepath.Join("node", "node_modules", "@asyncapi", "specs", "schemas", "3.0.0.json")
	if _, err := os.Stat(file); err != nil {
		node(t, nil, "--version") // skips the test, or fails it
	}
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range variants {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(all(t, opts).AsyncAPI()))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(doc.(map[string]any)["info"].(map[string]any), "version")
		if schema.Validate(doc) == nil {
			t.Error("the schema accepts a document without a version")
		}
	}
}

// The parser of AsyncAPI finds no errors, and the operations with their messages.
func TestAsyncAPIParses(t *testing.T) {
	type operation struct {
		Action          string
		Messages, Reply []string
		Correlated      bool
	}
	want := map[string]operation{
		"receive.room.join":     {"receive", []string{"room.join"}, []string{"room.joined", "$ws:rpc-progress", "RPC_ERROR"}, true},
		"receive.room.typing":   {"receive", []string{"room.typing"}, nil, false},
		"send.room.joined":      {"send", []string{"room.joined"}, nil, false},
		"send.sure.":            {"send", []string{"sure?"}, []string{"$ws:answer"}, true},
		"send.ERROR":            {"send", []string{"ERROR"}, nil, false},
		"send..ws.unsubscribed": {"send", []string{"$ws:unsubscribed"}, nil, false},
		"send..ws.redacted":     {"send", []string{"$ws:redacted"}, nil, false},
		"send.RPC_ERROR":        {"send", []string{"RPC_ERROR"}, nil, true},
	}
	for name, opts := range variants {
		var got struct {
			Errors     []string
			Operations map[string]operation
		}
		if err := json.Unmarshal(node(t, all(t, opts).AsyncAPI(), "parse.mjs"), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Errors) > 0 {
			t.Errorf("%s: %q", name, got.Errors)
		}
		strange := 0
		for id, o := range got.Operations {
			if strings.HasPrefix(id, "send.strange") {
				strange++
			} else if w, ok := want[id]; !ok || o.Action != w.Action || !slices.Equal(o.Messages, w.Messages) || !slices.Equal(o.Reply, w.Reply) || o.Correlated != w.Correlated {
				t.Errorf("%s: %s is %+v, want %+v", name, id, o, w)
			}
		}
		if len(got.Operations) != len(want)+2 || strange != 2 {
			t.Errorf("%s: %d operations", name, len(got.Operations))
		}
	}
}

// The limits of each route, the server and its security are in the document.
func TestAsyncAPIHasLimitsAndSecurity(t *testing.T) {
	var doc struct {
		Servers map[string]struct {
			Host, Protocol string
			Security       []any
		}
		Channels   map[string]struct{ Address *string }
		Operations map[string]struct {
			Limits map[string]any `json:"x-limits"`
		}
	}
	if err := json.Unmarshal(all(t, variants["all options"]).AsyncAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]map[string]any{
		"receive.room.join":   {"maxPayload": 4096.0, "timeoutMs": 3000.0, "concurrent": true, "strict": true, "rates": map[string]any{"perMinute": 9.0}},
		"receive.room.typing": {"maxPayload": 65536.0, "exempt": true, "silent": true, "strict": true, "rates": map[string]any{"perMinute": 11.0}},
		"send.sure.":          {"timeoutMs": 60000.0},
		"send.room.joined":    nil,
	} {
		if got := doc.Operations[id].Limits; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	s := doc.Servers["default"]
	if s.Host != "chat.example.com" || s.Protocol != "wss" || len(s.Security) != 2 || *doc.Channels["socket"].Address != "/ws" {
		t.Errorf("%+v, %+v", doc.Servers, doc.Channels)
	}
}

// The payloads of frames as a server sends them are valid by the schemas of the messages.
func TestAsyncAPIMessagesFitFrames(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(all(t, contract.Options{}).AsyncAPI()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("asyncapi.json", doc); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		message, frame string
		valid          bool
	}{
		{"request.room.join", `{"type":"room.join","meta":{"correlationId":"1"},"payload":{"v":1}}`, true},
		{"request.room.join", `{"type":"room.join","meta":{"correlationId":"1"},"payload":{"v":10}}`, false},
		{"request.room.join", `{"type":"room.join","meta":{"correlationId":"1"}}`, false},
		{"request.room.join", `{"type":"room.join","payload":{"v":1}}`, false},
		{"request.room.join", `{"type":"room.jon","meta":{"correlationId":"1"},"payload":{"v":1}}`, false},
		{"reply.room.join", `{"type":"room.joined","meta":{"correlationId":"1"},"payload":{"id":"a","note":""}}`, true},
		{"progress.room.join", `{"type":"$ws:rpc-progress","meta":{"correlationId":"1"},"data":0.5,"payload":0.5}`, true},
		{"send.room.typing", `{"type":"room.typing"}`, true},
		{"send.room.typing", `{"type":"room.typing","payload":{}}`, true},
		{"event.room.joined", `{"type":"room.joined","payload":{"id":"a","note":""}}`, true},
		{"event.room.joined", `{"type":"room.joined","payload":{"id":"a"}}`, false},
		{"question.sure.", `{"type":"sure?","meta":{"correlationId":"$ws:1"},"payload":{"id":"a","note":""}}`, true},
		{"answer.sure.", `{"type":"$ws:answer","meta":{"correlationId":"$ws:1"},"payload":null}`, true},
		{"answer.sure.", `{"type":"$ws:answer","meta":{"correlationId":"$ws:1"},"error":{"code":"NO"}}`, true},
		{"ERROR", `{"type":"ERROR","payload":{"type":"a","code":"INVALID_ARGUMENT","message":"m","retryable":false}}`, true},
		{"RPC_ERROR", `{"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{"code":"RESOURCE_EXHAUSTED","message":"m","retryable":true,"retryAfterMs":null}}`, true},
		{"RPC_ERROR", `{"type":"RPC_ERROR","payload":{"code":"X","message":"m","retryable":true}}`, false},
	} {
		schema, err := c.Compile("asyncapi.json#/channels/socket/messages/" + tc.message + "/payload")
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value(t, tc.frame)); (err == nil) != tc.valid {
			t.Errorf("%s %s: %v, want valid %v", tc.message, tc.frame, err, tc.valid)
		}
	}
}
