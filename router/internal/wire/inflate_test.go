package wire

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/race"
)

const inflateLimit = 100_000

// inflated is what the code makes of a message.
func inflated(in []byte, limit int) (string, error) {
	var f inflater
	out := newBuffer(1)
	defer out.free()
	err := f.inflate(out, in, limit)
	return string(out.b), err
}

// oracle is what compress/flate makes of it. Two last blocks of different content tell
// the end of the message from an end before it, where they would be read as something
// else.
func oracle(in []byte, limit int) (string, error) {
	read := func(last string) (string, error) {
		r := flate.NewReader(io.MultiReader(bytes.NewReader(in), strings.NewReader("\x00\x00\xff\xff"+last)))
		b, err := io.ReadAll(io.LimitReader(r, int64(limit)+2))
		return string(b), err
	}
	b, err := read("\x01\x00\x00\xff\xff")
	switch {
	case len(b) > limit:
		return b[:limit], errTooLarge
	case err != nil:
		return "", errDeflate
	}
	if again, err := read("\x01\x01\x00\xfe\xffX"); err != nil || again != b && again != b+"X" {
		return "", errDeflate
	}
	return b, nil
}

func checkInflate(t *testing.T, in []byte, limit int) {
	t.Helper()
	want, wantErr := oracle(in, limit)
	got, err := inflated(in, limit)
	switch {
	case errors.Is(wantErr, errDeflate):
		// compress/flate may find the fault only behind more than the limit.
		if err == nil {
			t.Fatalf("%.300x: inflated, which compress/flate refuses", in)
		}
	case err != wantErr && !(wantErr == errTooLarge && err == errDeflate):
		t.Fatalf("%.300x: got %v, compress/flate %v", in, err, wantErr)
	case err == nil && got != want, err == errTooLarge && got != want:
		t.Fatalf("%.300x: got %.60q, compress/flate %.60q", in, got, want)
	}
}

// compressed is a message as a client makes it.
func compressed(t testing.TB, payload []byte, level, flushEvery int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	for len(payload) > flushEvery {
		_, _ = w.Write(payload[:flushEvery])
		_ = w.Flush()
		payload = payload[flushEvery:]
	}
	_, _ = w.Write(payload)
	_ = w.Flush()
	return bytes.TrimSuffix(b.Bytes(), messageTail[:])
}

// payloads of every kind that compresses differently.
func payloadOf(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	switch r.IntN(5) {
	case 0: // one byte
	case 1:
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	case 2:
		words := strings.Fields(`{"type":"chat.send", "payload":{"text": all work and no play makes a dull boy €} é`)
		var s strings.Builder
		for s.Len() < n {
			s.WriteString(words[r.IntN(len(words))])
		}
		copy(b, s.String())
	case 3:
		for i := range b {
			b[i] = byte(r.ExpFloat64() * 9) // codes of many lengths
		}
	default:
		period := 1 + r.IntN(40_000)
		for i := range b {
			if i < period {
				b[i] = byte(r.Uint32())
			} else {
				b[i] = b[i-period]
			}
		}
	}
	return b
}

func TestInflateAgreesWithCompressFlate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range race.Fewer(600) {
		n := r.IntN(300)
		if r.IntN(3) == 0 {
			n = r.IntN(120_000)
		}
		payload := payloadOf(r, n)
		in := compressed(t, payload, r.IntN(12)-2, 1+r.IntN(100_000))
		got, err := inflated(in, inflateLimit)
		if n <= inflateLimit && (err != nil || got != string(payload)) {
			t.Fatalf("%d bytes: not what was compressed: %v", n, err)
		}
		if n > inflateLimit && (err != errTooLarge || got != string(payload[:inflateLimit])) {
			t.Fatalf("%d bytes, over the limit: %v", n, err)
		}
		// The same with a byte changed, cut off, or with more behind it.
		for range 5 {
			bad := bytes.Clone(in)
			switch r.IntN(3) {
			case 0:
				if len(bad) > 0 {
					bad[r.IntN(min(len(bad), 200))] ^= 1 << r.IntN(8)
				}
			case 1:
				bad = bad[:r.IntN(len(bad)+1)]
			default:
				bad = append(bad, byte(r.Uint32()), byte(r.Uint32()))
			}
			checkInflate(t, bad, inflateLimit)
		}
	}
}

// The limit is exact, wherever in a match or a stored block it falls.
func TestInflateLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		payload := payloadOf(r, 1+r.IntN(3000))
		in := compressed(t, payload, r.IntN(12)-2, 1<<20)
		for _, limit := range []int{len(payload) - 1, len(payload), len(payload) / 2, 0} {
			got, err := inflated(in, limit)
			var want error
			if limit < len(payload) {
				want = errTooLarge
			}
			if err != want || got != string(payload[:limit]) {
				t.Fatalf("%d bytes, limit %d: got %d bytes, %v", len(payload), limit, len(got), err)
			}
		}
	}
}

func FuzzInflate(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		f.Add(compressed(f, payloadOf(r, r.IntN(500)), r.IntN(12)-2, 1+r.IntN(500)))
	}
	f.Add([]byte("\xf3\x48\xcd\xc9\xc9\x07\x00\x00")) // RFC 7692, 7.2.3.4: the last block first
	f.Fuzz(func(t *testing.T, in []byte) { checkInflate(t, in, inflateLimit) })
}

func BenchmarkInflate(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	words := payloadOf(r, 0)
	for len(words) < 60_000 {
		words = append(words, `{"user":"`...)
		for range 8 {
			words = append(words, byte('a'+r.IntN(26)))
		}
		words = append(words, `","text":"all work and no play"},`...)
	}
	for name, payload := range map[string][]byte{
		"zeros":  make([]byte, 65_000),
		"json":   words,
		"short":  []byte(`{"type":"chat.send","payload":{"text":"a short line of chat, as people type them"}}`),
		"random": compressed(b, words, 9, 1<<20),
	} {
		in := compressed(b, payload, flate.DefaultCompression, 1<<20)
		b.Run(name, func(b *testing.B) {
			var f inflater
			out := newBuffer(len(payload))
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if err := f.inflate(out, in, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/flate", func(b *testing.B) {
			r := flate.NewReader(nil)
			buf := make([]byte, 64<<10)
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				_ = r.(flate.Resetter).Reset(io.MultiReader(bytes.NewReader(in), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff")), nil)
				for {
					if _, err := r.Read(buf); err != nil {
						break
					}
				}
			}
		})
	}
}
