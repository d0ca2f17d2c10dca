package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

var edges = []int{0, 1, 2, 7, 8, 9, 31, 32, 33, 124, 125, 126, 127, 4095, 4096, 8191, 8192, 65534, 65535, 65536, 65537, 100_000}

func TestHeaderRoundTrip(t *testing.T) {
	for _, n := range edges {
		for _, deflated := range []bool{false, true} {
			buf := bytes.Repeat([]byte{0xEE}, HeaderRoom+n)
			frame := PutHeader(buf, deflated)
			h, ok := parseHeader(frame)
			if !ok {
				t.Fatalf("%d bytes: the header % x is not read back", n, frame[:min(len(frame), HeaderRoom)])
			}
			wantB0 := byte(finBit | opText)
			if deflated {
				wantB0 |= rsv1Bit
			}
			if h.b0 != wantB0 || h.masked || h.length != uint64(n) || h.size+n != len(frame) {
				t.Errorf("%d bytes: got %+v of a frame of %d bytes", n, h, len(frame))
			}
			for i, b := range frame[h.size:] {
				if b != 0xEE {
					t.Fatalf("%d bytes: byte %d of the payload has been written to", n, i)
				}
			}
			minimal := map[bool]int{n <= 125: 2, n > 125 && n <= 0xFFFF: 4, n > 0xFFFF: 10}[true]
			if h.size != minimal {
				t.Errorf("%d bytes: a header of %d bytes, want %d", n, h.size, minimal)
			}
		}
	}
}

// clientHeader is written from the RFC, independently of parseHeader.
func clientHeader(b0 byte, form byte, length uint64, mask []byte) []byte {
	b := []byte{b0, form}
	if mask != nil {
		b[1] |= 0x80
	}
	switch form {
	case 126:
		b = append(b, byte(length>>8), byte(length))
	case 127:
		for shift := 56; shift >= 0; shift -= 8 {
			b = append(b, byte(length>>shift))
		}
	}
	return append(b, mask...)
}

func TestParseHeader(t *testing.T) {
	for _, c := range []struct {
		form   byte
		length uint64
	}{
		{0, 0}, {1, 1}, {125, 125}, {126, 0}, {126, 126}, {126, 65535}, {127, 0}, {127, 65536}, {127, 1 << 40}, {127, 1<<63 - 1}, {127, 1 << 63}, {127, 1<<64 - 1},
	} {
		for _, mask := range [][]byte{nil, {1, 2, 3, 0xFF}} {
			b := clientHeader(0xC9, c.form, c.length, mask)
			for n := range b {
				if _, ok := parseHeader(b[:n]); ok {
					t.Errorf("% x: the first %d bytes are taken for a header", b, n)
				}
			}
			h, ok := parseHeader(append(b, "payload"...))
			if !ok || h.b0 != 0xC9 || h.masked != (mask != nil) || h.length != c.length || h.size != len(b) {
				t.Errorf("% x: got %+v, %v", b, h, ok)
			}
			if mask != nil && h.mask != binary.LittleEndian.Uint32(mask) {
				t.Errorf("% x: got the mask %#x", b, h.mask)
			}
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte{0x81, 0x85, 1, 2, 3, 4, 5})
	f.Add([]byte{0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := parseHeader(b)
		if !ok {
			if len(b) >= maxClientHeader {
				t.Fatalf("% x is not taken for a header", b[:maxClientHeader])
			}
			return
		}
		if h.size < 2 || h.size > maxClientHeader || h.size > len(b) {
			t.Fatalf("a header of %d bytes in %d", h.size, len(b))
		}
		if _, ok := parseHeader(b[:h.size-1]); ok {
			t.Fatal("a part of the header is taken for a header")
		}
		if again, _ := parseHeader(b[:h.size]); again != h {
			t.Fatalf("what follows the header changes it: %+v and %+v", h, again)
		}
	})
}

func naiveUnmask(b []byte, mask uint32) {
	var key [4]byte
	binary.LittleEndian.PutUint32(key[:], mask)
	for i := range b {
		b[i] ^= key[i%4]
	}
}

func checkUnmask(t *testing.T, payload []byte, mask uint32) {
	t.Helper()
	got, want := bytes.Clone(payload), bytes.Clone(payload)
	unmask(got, mask)
	naiveUnmask(want, mask)
	if !bytes.Equal(got, want) {
		t.Fatalf("unmasking %d bytes with %#x: got % x, want % x", len(payload), mask, got, want)
	}
}

func TestUnmask(t *testing.T) {
	for n := range 200 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7)
		}
		for _, mask := range []uint32{0, 1, 0x01020304, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF} {
			checkUnmask(t, b, mask)
		}
	}
}

func FuzzUnmask(f *testing.F) {
	f.Add([]byte("hello"), uint32(0x01020304))
	f.Fuzz(func(t *testing.T, payload []byte, mask uint32) { checkUnmask(t, payload, mask) })
}
