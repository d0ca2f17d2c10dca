package contract_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/router"
)

// valuesPerType is how many payloads are compared for each type. Random types are many, and the
// race detector is slow.
func valuesPerType(i int) int {
	n := 3000
	if i >= len(written) {
		n = 1000
	}
	if race.Enabled {
		n /= 10
	}
	return n
}

// For every type and for thousands of payloads near what it accepts: the schema accepts a payload
// if and only if a server does, which is asked over a WebSocket. The server sends what it has
// decoded, and the schema of replies accepts that.
func TestSchemaAgreesWithTheServer(t *testing.T) {
	r := router.New()
	for _, rt := range routes {
		rt.register(r)
	}
	c, err := contract.Of(r)
	if err != nil {
		t.Fatal(err)
	}
	schemas := compile(t, c.JSONSchema())
	ws := dial(t, r)
	for i, rt := range routes {
		t.Run(rt.name, func(t *testing.T) {
			schema, replySchema := schemas("request:"+rt.name), schemas("reply:"+rt.name)
			g := &generator{Rand: rand.New(rand.NewPCG(uint64(i), 1)), strict: rt.strict}
			payloads := make([]string, valuesPerType(i))
			for j := range payloads {
				payloads[j] = g.payload(rt.of)
			}
			accepted, wrong := 0, 0
			for j, a := range ask(t, ws, rt.name, payloads) {
				refusal := schema.Validate(value(t, payloads[j]))
				var sent error
				if a.refused == "" {
					accepted++
					if sent = replySchema.Validate(value(t, a.reply)); a.reply == "" && rt.of == reflect.TypeFor[struct{}]() {
						sent = nil // there is no payload
					}
				}
				if (refusal == nil) == (a.refused == "") && sent == nil {
					continue
				}
				if wrong++; wrong <= 3 {
					t.Errorf("%s\nserver: %s\nschema: %v\nreply %s: %v", payloads[j], cmp.Or(a.refused, "accepted"), refusal, a.reply, sent)
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d differ", wrong, len(payloads))
			}
			t.Logf("accepted %d of %d", accepted, len(payloads))
			everything := strings.HasPrefix(rt.name, "any as")
			if i >= len(written) { // too few payloads may suit all rules of a random type
				return
			}
			if accepted < len(payloads)/50 || !everything && accepted > len(payloads)*49/50 {
				t.Errorf("%d of %d payloads are accepted: they do not test the rule", accepted, len(payloads))
			}
		})
	}
}

// compile returns the schemas of a document's definitions.
func compile(t *testing.T, document []byte) func(definition string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("contract.json", doc); err != nil {
		t.Fatal(err)
	}
	return func(name string) *jsonschema.Schema {
		t.Helper()
		s, err := c.Compile("contract.json#/$defs/" + strings.NewReplacer("%", "%25", " ", "%20", "~", "~0", "/", "~1").Replace(name))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// value is the JSON that a validator sees. What is left out is null, see docs/contract.md.
func value(t *testing.T, payload string) any {
	if payload == "" {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(payload))
	if err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	return v
}

func dial(t *testing.T, r *router.Router) *websocket.Conn {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// answer is the payload of a reply, or of an error.
type answer struct{ reply, refused string }

// ask sends requests and returns their answers.
func ask(t *testing.T, ws *websocket.Conn, typ string, payloads []string) []answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only a test that hangs takes longer
	defer cancel()
	var writing sync.WaitGroup
	defer writing.Wait() // before ctx ends: that would close the connection
	writing.Go(func() {
		for i, p := range payloads {
			frame := fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"%d"}`, typ, i)
			if p != "" {
				frame += `,"payload":` + p
			}
			if ws.Write(ctx, websocket.MessageText, []byte(frame+"}")) != nil {
				return // reading fails, too
			}
		}
	})
	answers := make([]answer, len(payloads))
	for range payloads {
		_, frame, err := ws.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Type    string
			Meta    struct{ CorrelationID string }
			Payload json.RawMessage
		}
		if err := json.Unmarshal(frame, &f); err != nil {
			t.Fatal(err)
		}
		i, err := strconv.Atoi(f.Meta.CorrelationID)
		if err != nil {
			t.Fatalf("%s: %v", frame, err)
		}
		if f.Type != "RPC_ERROR" {
			answers[i].reply = string(f.Payload)
		} else if answers[i].refused = string(f.Payload); !strings.Contains(answers[i].refused, "INVALID_ARGUMENT") {
			t.Fatalf("%s: %s", payloads[i], frame)
		}
	}
	return answers
}
