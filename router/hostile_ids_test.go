package router_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wskit/wskit/router"
)

// The caller of a request whose id is too long does not wait in vain: the answer has the
// whole id, or the connection is closed.
func TestRequestsWithALongID(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	for _, c := range []struct {
		name, id string // as JSON
		answered bool
	}{
		{"one byte too long", strings.Repeat("i", 129), true},
		{"the longest", strings.Repeat("i", 1022), true},
		{"longer", strings.Repeat("i", 1023), false},
		{"escaped", strings.Repeat(`\u0069`, 170), true},
		{"escaped, longer", strings.Repeat(`\u0069`, 171), false},
		{"a page of it", strings.Repeat("i", 60_000), false},
	} {
		for _, rest := range []string{`"type":"echo","meta":{"correlationId":"%s"},"payload":{"text":"a"}`, `"payload":{"text":"a"},"meta":{"correlationId":"%s"},"type":"echo"`} {
			p := s.dial()
			p.write(join(textFrame(fmt.Sprintf(`{`+rest+`}`, c.id)), echo("next", "a")))
			var id string
			if err := json.Unmarshal([]byte(`"`+c.id+`"`), &id); err != nil {
				t.Fatal(err)
			}
			if c.answered {
				p.expect("RPC_ERROR "+id+" INVALID_ARGUMENT", "reply next a")
				p.bye()
				continue
			}
			p.expect("ERROR INVALID_ARGUMENT", "close 1008")
			p.hangUp()
		}
	}
	s.recovered()
}

// A string that JavaScript has cut within a character is called what it is, wherever it
// stands; what only looks like it is not.
func TestLoneSurrogates(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	p := s.dial()
	for text, lone := range map[string]bool{
		`\ud83d`:             true,
		`\uDE00`:             true,
		`a\ud83db`:           true,
		`\ud83d\ud83d\ude00`: true,
		`\ud83d\u0061`:       true,
		`\ud83d\\ude00`:      true,
		`\\\ud83d`:           true,
		`\\ud83d\x`:          false, // text, and then a bad escape
		`\ud83d\ude00\x`:     false,
		`\u00e4\q`:           false,
		`\ud83`:              false,
		`\`:                  false,
	} {
		for _, frame := range []string{
			`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"` + text + `"}}`,
			`{"type":"echo","meta":{"x":"` + text + `"}}`,
			`{"type":"` + text + `"}`,
		} {
			p.write(textFrame(frame))
			f, err := p.read()
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Payload struct{ Code, Message string }
			}
			if err := json.Unmarshal(f.payload, &got); err != nil || got.Payload.Code != "INVALID_ARGUMENT" {
				t.Fatalf("%s is answered %s", frame, f.payload)
			}
			if strings.Contains(got.Payload.Message, "surrogate") != lone {
				t.Errorf("%s is answered %q", frame, got.Payload.Message)
			}
		}
	}
	p.bye()
	s.recovered()
}
