package router_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// However a frame is put together, it goes through the middleware once,
// is handled as the type that the middleware saw or not at all, and has one answer,
// unless it is an event that was handled.
func TestTheTypeThatIsLimitedIsHandled(t *testing.T) {
	t.Parallel()
	t.Run("small frames", func(t *testing.T) { limitedIsHandled(t, 2000, 1100) })
	t.Run("large frames", func(t *testing.T) { limitedIsHandled(t, 20_000, 4100) })
}

func limitedIsHandled(t *testing.T, maxPayload, long int) {
	const frames = 4000
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	var limited, handled []string
	refuse := false
	s := serveSocket(t, router.Options{Limits: router.Limits{MaxPayload: maxPayload}}, func(r *router.Router) {
		r.Use(func(next ingress.Handler) ingress.Handler {
			return func(c *ingress.Context) error {
				if c.Type == "echo" {
					return next(c)
				}
				limited = append(limited, c.Type)
				if refuse {
					return c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, RetryAfter: time.Second})
				}
				return next(c)
			}
		})
		for _, name := range []string{"a", "b", "type", "payload"} {
			event, request := "event."+name, "request."+name
			router.On(r, event, func(*router.Context, any) error { handled = append(handled, event); return nil })
			router.RPC(r, request, func(*router.Context, any) (any, error) { handled = append(handled, request); return 1, nil })
		}
	})
	p := s.dial()
	for i := range frames {
		frame := oddFrame(rnd, fmt.Sprint("id", i), long)
		limited, handled, refuse = limited[:0], handled[:0], rnd.IntN(3) == 0
		// Binary, because text that is not UTF-8 ends the connection.
		p.write(rawFrame{b0: fin | opBinary, payload: frame}.bytes(), echo("next", "s")) // whose answer ends the frame's
		var answers []string
		for answer := p.next(); answer != "reply next s"; answer = p.next() {
			if answer == "end" {
				t.Fatalf("seed %d, frame %d %.300q: the connection has ended after %q", seed, i, frame, answers)
			}
			answers = append(answers, answer)
		}
		silent := len(handled) == 1 && strings.HasPrefix(handled[0], "event.")
		switch {
		case len(limited) != 1,
			len(handled) > 0 && (refuse || !slices.Equal(handled, limited)),
			len(answers) > 1 || silent != (len(answers) == 0):
			t.Fatalf("seed %d, frame %d %.300q:\nlimited as %q, refused %v, handled as %q, answered %q", seed, i, frame, limited, refuse, handled, answers)
		}
	}
	p.hangUp()
	s.recovered()
}

// oddFrame puts a frame together from what readers of JSON differ about.
func oddFrame(rnd *rand.Rand, id string, long int) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	value := func() string {
		return pick(`1`, `"x"`, `null`, `{"type":"request.b"}`, `{"type":"request.b"}`, `{}`, `[]`, `01`, `1e5`, `tru`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"",
			`{"meta":{"correlationId":"inner"}}`, `"`+strings.Repeat("y", long)+`"`, `"`+strings.Repeat("y", long+1000)+`"`)
	}
	typ := pick("event.", "request.") + pick("a", "b", "type", "payload")
	meta := []string{pick(`"correlationId":"`+id+`"`, `"correlationId":"`+id+`"`, `"correlation\u0049d":"`+id+`"`, `"x":1`)}
	for range max(0, rnd.IntN(5)-2) {
		meta = append(meta, pick(`"correlationId":"`+id+`"`, `"correlationId":""`, `"correlationId":1`, `"timestamp":1`, `"timestamp":"x"`,
			`"timeoutMs":100000`, `"timeoutMs":0`, `"idempotencyKey":"`+id+`"`, `"x":`+value()))
	}
	members := []string{
		pick(`"type"`, `"type"`, `"type"`, `"\u0074ype"`, `"Type"`) + ":" + pick(`"`+typ+`"`, `"`+typ+`"`, `"`+typ+`"`, `"`+typ+`"`, `"`+typ+`"`, `"`+strings.Replace(typ, ".", `\u002e`, 1)+`"`, `null`, `""`, `"unheard.of"`, `"ERROR"`, `"__x"`),
		`"meta":` + pick("{"+strings.Join(meta, ",")+"}", "{"+strings.Join(meta, ",")+"}", "{"+strings.Join(meta, ",")+"}", "null", "[]"),
		`"payload":` + value(),
		pick(`"type":"request.b"`, `"meta":{"correlationId":"late"}`, `"x":`+value()),
	}
	members = members[:[]int{1, 2, 3, 3, 4}[rnd.IntN(5)]]
	if rnd.IntN(3) == 0 {
		rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	frame := "{" + strings.Join(members, ",") + "}"
	at := rnd.IntN(len(frame))
	switch rnd.IntN(12) {
	case 0:
		return frame[:at]
	case 1:
		return frame[:at] + string([]byte{byte(rnd.IntN(256))}) + frame[at:]
	case 2:
		return strings.ReplaceAll(frame, ",", " ,\n")
	case 3:
		return frame + pick(" ", "x", "}", "{}")
	}
	return frame
}
