package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// serverFrame builds one unmasked frame.
func serverFrame(opcode byte, payload []byte) []byte {
	out := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n <= 125:
		out = append(out, byte(n))
	case n <= 0xffff:
		out = binary.BigEndian.AppendUint16(append(out, 126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 127), uint64(n))
	}
	return append(out, payload...)
}

// However the stream is cut into reads, the same frames come out.
func TestScannerIsIndifferentToReadBoundaries(t *testing.T) {
	var stream []byte
	var want [][]byte
	for _, size := range []int{0, 1, 125, 126, 300, 65535, 65536, 70000, 5} {
		payload := fmt.Appendf(nil, "%d:", size)
		payload = append(payload, bytes.Repeat([]byte{'x'}, size)...)[:size]
		want = append(want, payload)
		stream = append(stream, serverFrame(opText, payload)...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, longest := range []int{1, 2, 7, 1000, len(stream)} {
		var s frameScanner
		var got int
		for left := stream; len(left) > 0; {
			n := min(len(left), 1+random.IntN(longest))
			in := left[:n]
			left = left[n:]
			for len(in) > 0 {
				f, rest, ok, err := s.next(in)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				in = rest
				if f.opcode != opText || f.size != uint64(len(want[got])) || !bytes.HasPrefix(want[got], f.payload) {
					t.Fatalf("reads of up to %d: frame %d: opcode %d, size %d", longest, got, f.opcode, f.size)
				}
				if len(f.payload) < min(len(want[got]), excerptSize) {
					t.Fatalf("reads of up to %d: frame %d: only %d bytes of the payload are shown", longest, got, len(f.payload))
				}
				got++
			}
		}
		if got != len(want) {
			t.Fatalf("reads of up to %d: %d frames, want %d", longest, got, len(want))
		}
	}
}

func TestScannerRefusesWhatItCannotCount(t *testing.T) {
	for name, tc := range map[string]struct {
		in   []byte
		want error
	}{
		"masked":       {[]byte{0x81, 0x80, 1, 2, 3, 4}, errMasked},
		"compressed":   {[]byte{0xc1, 0x00}, errReserved},
		"first part":   {[]byte{0x01, 0x00}, errFragmented},
		"continuation": {[]byte{0x80, 0x00}, errFragmented},
	} {
		var s frameScanner
		if _, _, _, err := s.next(tc.in); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	const frames = 32
	stream := bytes.Repeat(serverFrame(opText, requestBody("chat.echoed", 0)), frames)
	b.SetBytes(int64(len(stream)))
	var s frameScanner
	for b.Loop() {
		for in := stream; len(in) > 0; {
			_, rest, ok, err := s.next(in)
			if err != nil || !ok {
				b.Fatal(ok, err)
			}
			in = rest
		}
	}
}
