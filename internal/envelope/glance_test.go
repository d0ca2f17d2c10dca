package envelope

import (
	"strings"
	"testing"
)

// What is found at the ends of a large frame, and that the whole agrees with it.
func TestLargeFrames(t *testing.T) {
	big := `"` + strings.Repeat("x", 10_000) + `"`
	nested := `{"a":` + big + `,"type":"inner","meta":{"correlationId":"inner"}}`
	const meta = `"meta":{"timestamp":1,"correlationId":"c"}`
	var p Peeker // used again, as the router does
	for _, c := range []struct {
		frame, typ, id string
		far, bad       bool // errTypeFar from Head, an error from Rest
	}{
		{frame: `{"type":"a",` + meta + `,"payload":` + big + `}`, typ: "a", id: `"c"`},
		{frame: `{"type":"a","payload":` + big + `,` + meta + `}`, typ: "a", id: `"c"`},
		{frame: `{` + meta + `,"payload":` + big + `,"type":"a"}`, typ: "a", id: `"c"`}, // as sorted by an encoder
		{frame: `{"payload":` + big + `,"type":"a",` + meta + `}`, typ: "a", id: `"c"`},
		{frame: `{"payload":` + big + `,` + meta + `,"type":"a"}` + " \n", typ: "a", id: `"c"`},
		{frame: ` { "type" : "a" , "payload" : ` + big + ` }`, typ: "a"},
		{frame: `{"type":"a","payload":` + big + `}`, typ: "a"},
		{frame: `{"payload":` + big + `,"type":"a"}`, typ: "a"},
		{frame: `{"type":"a","payload":` + nested + `}`, typ: "a"},
		{frame: `{"payload":` + nested + `,"type":"a"}`, typ: "a"},
		{frame: `{"payload":` + nested + `,` + meta + `,"type":"a"}`, typ: "a", id: `"c"`},
		{frame: `{"type":"a","payload":"` + strings.Repeat("x", 10_000) + `,\"type\":\"b\"}"}`, typ: "a"},
		{frame: `{"type":"a","junk":` + big + `,"payload":1,` + meta + `}`, typ: "a", id: `"c"`},

		{frame: `{"payload":` + nested + `}`, far: true},
		{frame: `{"payload":` + big + `,"type":"a","junk":` + big + `}`, far: true},
		{frame: `{"payload":` + big + `,"\u0074ype":"a"}`, far: true},
		{frame: big, far: true},

		{frame: `{"type":"a","payload":` + big + `,"type":"b"}`, typ: "a", bad: true},
		{frame: `{"type":"a","payload":` + big, typ: "a", bad: true},
		{frame: `{"payload":` + big + `x,"type":"a"}`, typ: "a", bad: true},
		{frame: `{"payload":[` + big + `,"type":"a"}`, typ: "a", bad: true},
		{frame: `{"type":"a","payload":` + big + `,"payload":1}`, typ: "a", bad: true},
		{frame: `{"type":"a","payload":{"x":` + big + `,"x":1}}`, typ: "a", bad: true},
	} {
		e, complete, err := p.Head([]byte(c.frame))
		short := c.frame[:20] + "…" + c.frame[len(c.frame)-40:]
		if c.far {
			if err != errTypeFar || !complete || e.Type != nil {
				t.Errorf("%s: %q, %v", short, e.Type, err)
			}
			continue
		}
		if err != nil || complete || string(e.Type) != c.typ || !c.bad && string(e.CorrelationID) != c.id {
			t.Errorf("%s: found the type %q and the id %s, %v", short, e.Type, e.CorrelationID, err)
			continue
		}
		if !p.HasMeta() {
			t.Errorf("%s: a refusal would read all of it", short)
		}
		if err := p.Rest(&e); (err != nil) != c.bad || err == nil && (string(e.Type) != c.typ || string(e.CorrelationID) != c.id) {
			t.Errorf("%s: as a whole %q and %s, %v", short, e.Type, e.CorrelationID, err)
		}
	}
}

// However a large frame is put together, its ends cost no more than a small frame.
func TestLargeFramesAllocateNothing(t *testing.T) {
	var p Peeker
	for _, frame := range []string{
		`{"type":"a","payload":[` + strings.Repeat("0,", 30_000) + `0]}`,
		`{"payload":[` + strings.Repeat("0,", 30_000) + `0],"meta":{"correlationId":"c"},"type":"a"}`,
		`{"junk":[` + strings.Repeat("0,", 30_000) + `0]}`,
	} {
		b := []byte(frame)
		p.Head(b)
		if n := testing.AllocsPerRun(100, func() { p.Head(b) }); n != 0 {
			t.Errorf("%.20s…: %v allocations, want none", frame, n)
		}
	}
}
