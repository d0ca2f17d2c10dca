package wire

import "testing"

// The first bytes of a frame are enough to see that it is none of RFC 6455.
func TestViolations(t *testing.T) {
	t.Parallel()
	within := &part{opcode: opText}
	for _, c := range []struct {
		name    string
		deflate bool
		part    *part // of a message that has begun
		frame   []byte
		ok      bool
	}{
		{"text", false, nil, []byte{finBit | opText, maskBit | 5}, true},
		{"its first byte", false, nil, []byte{finBit | opText}, true},
		{"not masked", false, nil, []byte{finBit | opText, 5}, false},
		{"a ping that is not masked", false, nil, []byte{finBit | opPing, 5}, false},
		{"compressed", true, nil, []byte{finBit | rsv1Bit | opText, maskBit | 5}, true},
		{"compressed, but not agreed", false, nil, []byte{finBit | rsv1Bit | opText, maskBit | 5}, false},
		{"a compressed ping", true, nil, []byte{finBit | rsv1Bit | opPing, maskBit}, false},
		{"another reserved bit", true, nil, []byte{finBit | 0x20 | opText, maskBit | 5}, false},
		{"an opcode for data", false, nil, []byte{finBit | 3, maskBit | 5}, false},
		{"an opcode for control", false, nil, []byte{finBit | 0xB, maskBit | 5}, false},
		{"a fragmented ping", false, nil, []byte{opPing, maskBit}, false},
		{"a continuation", false, within, []byte{opCont, maskBit | 5}, true},
		{"a continuation of nothing", false, nil, []byte{opCont, maskBit | 5}, false},
		{"a message within a message", false, within, []byte{finBit | opText, maskBit | 5}, false},
		{"a ping within a message", false, within, []byte{finBit | opPing, maskBit | 125}, true},
		{"a long ping", false, nil, []byte{finBit | opPing, maskBit | 126, 0, 126}, false},
		{"a length of two bytes", false, nil, []byte{finBit | opText, maskBit | 126, 0, 126}, true},
		{"a length of two bytes that fits in one", false, nil, []byte{finBit | opText, maskBit | 126, 0, 125}, false},
		{"a length of eight bytes", false, nil, []byte{finBit | opText, maskBit | 127, 0, 0, 0, 0, 0, 1, 0, 0}, true},
		{"a length of eight bytes that fits in two", false, nil,
			[]byte{finBit | opText, maskBit | 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF}, false},
		{"a negative length", false, nil, []byte{finBit | opText, maskBit | 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, false},
	} {
		s := &Stream{frames: frames{deflate: c.deflate, part: c.part}}
		if why := s.violation(c.frame); (why == "") != c.ok {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
