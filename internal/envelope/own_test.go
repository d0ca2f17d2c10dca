package envelope_test

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/envelope"
)

// protocolNames are the members of meta that PROTOCOL.md keeps for the protocol.
var protocolNames = []string{"correlationId", "timeoutMs", "timestamp", "idempotencyKey", "clientId", "receivedAt", "topic", "pos", "ts"}

// ownMembers reads the application's members of meta with encoding/json. The frame is valid.
func ownMembers(t testing.TB, frame []byte) (own map[string]string, withinBounds bool) {
	t.Helper()
	var f, meta map[string]stdjson.RawMessage
	if err := stdjson.Unmarshal(frame, &f); err != nil {
		t.Fatalf("encoding/json does not read %.200q: %v", frame, err)
	}
	if f["meta"] != nil {
		if err := stdjson.Unmarshal(f["meta"], &meta); err != nil {
			return nil, true
		}
	}
	own = map[string]string{}
	size := 0
	for name, value := range meta {
		if !strings.HasPrefix(name, "$") && !slices.Contains(protocolNames, name) {
			own[name] = string(value)
			size += len(name) + len(value)
		}
	}
	return own, len(own) <= 16 && size <= 512
}

// membersAgree compares what Own returns, before and after the whole frame has been read.
func membersAgree(t *testing.T, p *envelope.Peeker, frame []byte) {
	t.Helper()
	e, complete, err := p.Head(frame)
	before := slices.Clone(p.Own())
	if !complete {
		err = p.Rest(&e)
	}
	after := p.Own()
	tooMany := err == envelope.ErrMembers
	if err != nil && !tooMany {
		return
	}
	want, ok := ownMembers(t, frame)
	if ok == tooMany {
		t.Errorf("frame %.300q: %v, and its members are %q", frame, err, want)
	}
	if err != nil {
		return
	}
	for when, got := range map[string]envelope.Members{"before": before, "after": after} {
		n := 0
		for name := range got.All() {
			n++
			if _, ok := want[name]; !ok {
				t.Errorf("frame %.300q: %s it is read, it has the member %q", frame, when, name)
			}
		}
		if n != len(want) {
			t.Errorf("frame %.300q: %s it is read, it has %d members, want %d", frame, when, n, len(want))
		}
		for name, value := range want {
			if g := string(got.Get(name)); g != value {
				t.Errorf("frame %.300q: %s it is read, %q is %q, want %q", frame, when, name, g, value)
			}
		}
	}
}

// randomFrame is a frame whose names, values and order are chosen to make readers disagree: names
// that repeat, that differ in escapes or in case, halves of surrogate pairs, meta anywhere.
func randomFrame(rng *rand.Rand) string {
	names := []string{
		`a`, `\u0061`, `A`, `b`, `ä`, `\u00e4`, `😀`, `\ud83d\ude00`, `\ud83d`, `\/`, `/`, `\"`, ``, `$x`, `\u0024x`, `trace`, `x.y`,
		`correlationId`, `corr\u0065lationId`, `CorrelationId`, `timestamp`, `topic`, `t\u006fpic`, `ts`, `clientId`, strings.Repeat("n", 200),
	}
	values := []string{
		`1`, `"x"`, `null`, `true`, `{"a":{"type":"inner"}}`, `[1, 2 ]`, `{ "b" : "\ud83d\ude00" }`, `"\ud83d"`, `-1.5e3`, `""`,
		`"` + strings.Repeat("v", 300) + `"`, `{"x":1,"x":1}`, `"meta"`,
	}
	var members []string
	number, distinct := rng.IntN(6), rng.IntN(8) == 0
	if distinct {
		number = rng.IntN(40)
	}
	for range number {
		name := names[rng.IntN(len(names))]
		if distinct || rng.IntN(3) > 0 {
			name = fmt.Sprintf("own%d", rng.IntN(2000))
		}
		value := values[rng.IntN(len(values))]
		if strings.HasSuffix(name, "lationId") {
			value = `"c"`
		}
		members = append(members, `"`+name+`":`+value)
	}
	parts := []string{`"type":"a"`, `"meta":{` + strings.Join(members, ",") + `}`, `"payload":{"type":"b","meta":{"own1":2}}`}
	if rng.IntN(3) == 0 {
		parts[2] = `"payload":"` + strings.Repeat("p", 500+rng.IntN(6000)) + `,\"meta\":{}}"`
	}
	if rng.IntN(4) == 0 {
		parts = append(parts, `"other":[`+strings.Repeat("0,", rng.IntN(1500))+`0]`)
	}
	rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "{" + strings.Join(parts, ",") + "}"
}

// The application's members of meta are those that encoding/json finds, before the payload is read
// as well as after, wherever meta stands; or the frame is refused. The Peeker is used again.
func TestOwnMembersAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var p envelope.Peeker
	read := map[error]int{}
	for range 30_000 {
		frame := []byte(randomFrame(rng))
		membersAgree(t, &p, frame)
		_, err := p.Peek(frame)
		read[err]++
		if t.Failed() {
			return
		}
	}
	if read[nil] < 3000 || read[envelope.ErrMembers] < 50 || read[envelope.ErrSyntax] < 3000 || len(read) < 4 {
		t.Errorf("the frames are too much alike: %v", slices.Collect(maps.Values(read)))
	}
}

func FuzzOwnMembers(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add([]byte(randomFrame(rng)))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var p envelope.Peeker
		membersAgree(t, &p, frame)
	})
}

func TestOwnMembers(t *testing.T) {
	big := `"` + strings.Repeat("x", 5000) + `"`
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"m%d":%d`, i, i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, frame, find, value string
		bad                      string // the error, of Rest at the latest
	}{
		{"none", `{"type":"a","meta":{"timestamp":1}}`, "timestamp", "", ""},
		{"one", `{"type":"a","meta":{"trace":"t1"}}`, "trace", `"t1"`, ""},
		{"an object", `{"type":"a","meta":{"correlationId":"c","user":{"name":"ann"}},"payload":1}`, "user", `{"name":"ann"}`, ""},
		{"behind the payload", `{"type":"a","payload":{"meta":{"trace":1}},"meta":{"trace":2}}`, "trace", "2", ""},
		{"an escaped name", `{"type":"a","meta":{"tr\u0061ce":2}}`, "trace", "2", ""},
		{"of the protocol", `{"type":"a","meta":{"topic":"x","$new":"y","ts":1}}`, "topic", "", ""},
		{"16", `{"type":"a","meta":{"correlationId":"c"` + many(16) + `}}`, "m15", "15", ""},
		{"17", `{"type":"a","meta":{"correlationId":"c"` + many(17) + `}}`, "", "", "more than 16"},
		{"512 bytes", `{"type":"a","meta":{"a":` + long(509) + `}}`, "a", long(509), ""},
		{"513 bytes", `{"type":"a","meta":{"a":` + long(510) + `,"correlationId":"c"}}`, "", "", "512 bytes"},
		{"large, at the beginning", `{"type":"a","meta":{"trace":1},"payload":` + big + `}`, "trace", "1", ""},
		{"large, at the end", `{"type":"a","payload":` + big + `,"meta":{"trace":1}}`, "trace", "1", ""},
		{"large, sorted", `{"meta":{"trace":1},"payload":` + big + `,"type":"a"}`, "trace", "1", ""},
		{"large, an inner one", `{"payload":{"x":` + big + `,"meta":{"trace":2}},"type":"a"}`, "trace", "", ""},
		{"large, in the middle", `{"type":"a","other":` + big + `,"meta":{"trace":1},"payload":` + big + `}`, "", "", "last KiB"},
		{"large, beyond the first KiB", `{"type":"a","meta":{"clientId":` + long(1500) + `,"trace":1},"payload":` + big + `}`, "", "", "last KiB"},
		{"large, none in the middle", `{"type":"a","other":` + big + `,"meta":{"timestamp":1},"payload":` + big + `}`, "trace", "", ""},
	} {
		var p envelope.Peeker
		for range 2 {
			e, complete, err := p.Head([]byte(c.frame))
			early := string(p.Own().Get(c.find))
			if !complete {
				err = p.Rest(&e)
			}
			if c.bad != "" {
				if err == nil || !strings.Contains(err.Error(), c.bad) {
					t.Errorf("%s: %v, want %q", c.name, err, c.bad)
				}
				continue
			}
			if got := string(p.Own().Get(c.find)); err != nil || got != c.value || early != c.value {
				t.Errorf("%s: %q before and %q after, want %q; %v", c.name, early, got, c.value, err)
			}
		}
	}
}

func TestOwnMembersAllocateNothing(t *testing.T) {
	var p envelope.Peeker
	for _, frame := range []string{`{"type":"a","meta":{"trace":"t1","n":5},"payload":1}`, `{"type":"a","payload":1,"meta":{"trace":"t1"}}`} {
		b := []byte(frame)
		read := func() {
			e, complete, _ := p.Head(b)
			if p.Own().Get("trace") == nil {
				t.Error("it is not found")
			}
			if !complete {
				_ = p.Rest(&e)
			}
		}
		read()
		if n := testing.AllocsPerRun(100, read); n != 0 {
			t.Errorf("%s: %v allocations, want none", frame, n)
		}
	}
}
