package dedupe

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// ordered is what another implementation makes of a value.
func ordered(t *testing.T, value string) string {
	t.Helper()
	v := jsontext.Value(value)
	if err := v.Format(jsontext.ReorderRawObjects(true)); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	return string(v)
}

func TestMembersAreOrdered(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "", "aa", "ab", "é", "z}", `z\"`, "[", ",", "name", "Name"}
	r := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) string
	value = func(depth int) string {
		if depth == 0 || r.IntN(4) == 0 {
			scalars := []string{"null", "true", "-1.5e3", "0", `"text"`, `"a\\"`, `"{\"b\":1,\"a\":2}"`, "[]", "{}"}
			return scalars[r.IntN(len(scalars))]
		}
		all := make([]string, r.IntN(6))
		object := r.IntN(3) > 0
		for i, at := range r.Perm(len(names))[:len(all)] {
			all[i] = value(depth - 1)
			if object {
				all[i] = `"` + names[at] + `":` + all[i]
			}
		}
		if object {
			return "{" + strings.Join(all, ",") + "}"
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for range 20_000 {
		text := value(r.IntN(6))
		if got, want := string(inOrder([]byte(text))), ordered(t, text); got != want {
			t.Fatalf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

// Each byte of a nested payload is moved once, whatever its depth.
func TestOrderOfADeepPayload(t *testing.T) {
	t.Parallel()
	const depth = 9000
	text := strings.Repeat(`{"b":`, depth) + `"text"` + strings.Repeat(`,"a":1}`, depth)
	got := inOrder([]byte(text))
	if string(got) != ordered(t, text) {
		t.Error("it is not in order")
	}
	if cap(got) != len(text) {
		t.Errorf("%d bytes are written, of %d", cap(got), len(text))
	}
}

// BenchmarkDigest is what a key adds to a message: of a flat payload, and of a nested one that is out of order.
func BenchmarkDigest(b *testing.B) {
	for name, depth := range map[string]int{"flat": 0, "nested": 5000} {
		payload := []byte(strings.Repeat(`{"b":`, depth) + `"` + strings.Repeat("x", 64<<10-12*depth) + `"` + strings.Repeat(`,"a":1}`, depth))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Claim("ann", "pay", []byte("k"), payload)
			}
		})
	}
}

// Payloads with the same members in another order are one message, however deep they are nested.
func FuzzDigestOfAPayload(f *testing.F) {
	f.Add([]byte(`{"b":[{"d":1,"c":"\u0041"}],"a":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		v := jsontext.Value(payload)
		if v.Format() != nil {
			return
		}
		got := jsontext.Value(inOrder(v))
		if !got.IsValid() || len(got) != len(v) {
			t.Fatalf("%q becomes %q", v, got)
		}
		if again := inOrder(got); string(again) != string(got) {
			t.Fatalf("%q becomes %q, and then %q", v, got, again)
		}
	})
}
