package clienttest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
)

// The directions: up from the client to the server, down to the client.
const (
	up   = "up"
	down = "down"
)

// Opcodes of RFC 6455.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
)

// frame is a frame of RFC 6455.
type frame struct {
	raw     []byte // with its header, masked as it came
	op      byte
	payload []byte // not masked
}

// envelope has what is read of the JSON of a frame.
type envelope struct {
	Type string `json:"type"`
	Meta struct {
		CorrelationID  string `json:"correlationId"`
		IdempotencyKey string `json:"idempotencyKey"`
		Topic          string `json:"topic"`
		Pos            string `json:"pos"`
	} `json:"meta"`
}

// envelope returns the zero value for what is no envelope.
func (f *frame) envelope() (e envelope) {
	if json.Unmarshal(f.payload, &e) != nil {
		return envelope{}
	}
	return e
}

// maxFrame bounds the frames that the proxy carries.
const maxFrame = 64 << 20

// readFrame reads a frame. After an error, raw has the bytes that have come.
func readFrame(r *bufio.Reader) (f frame, err error) {
	take := func(n int) error {
		from := len(f.raw)
		f.raw = append(f.raw, make([]byte, n)...)
		got, err := io.ReadFull(r, f.raw[from:])
		f.raw = f.raw[:from+got]
		return err
	}
	if err := take(2); err != nil {
		return f, err
	}
	f.op = f.raw[0] & 15
	n := uint64(f.raw[1] & 127)
	switch n {
	case 126:
		if err := take(2); err != nil {
			return f, err
		}
		n = uint64(binary.BigEndian.Uint16(f.raw[2:]))
	case 127:
		if err := take(8); err != nil {
			return f, err
		}
		n = binary.BigEndian.Uint64(f.raw[2:])
	}
	if n > maxFrame {
		return f, errors.New("the frame is too large for the proxy")
	}
	masked := f.raw[1]&128 != 0
	if masked {
		if err := take(4); err != nil {
			return f, err
		}
	}
	head := len(f.raw)
	if err := take(int(n)); err != nil {
		return f, err
	}
	f.payload = f.raw[head:]
	if masked {
		key := f.raw[head-4 : head]
		f.payload = make([]byte, n)
		for i := range f.payload {
			f.payload[i] = f.raw[head+i] ^ key[i&3]
		}
	}
	return f, nil
}

// makeFrame makes a frame, masked with zeros if it goes up.
func makeFrame(op byte, payload []byte, dir string) frame {
	raw := []byte{128 | op}
	mask := byte(0)
	if dir == up {
		mask = 128
	}
	switch n := len(payload); {
	case n < 126:
		raw = append(raw, mask|byte(n))
	case n < 1<<16:
		raw = binary.BigEndian.AppendUint16(append(raw, mask|126), uint16(n))
	default:
		raw = binary.BigEndian.AppendUint64(append(raw, mask|127), uint64(n))
	}
	if dir == up {
		raw = append(raw, 0, 0, 0, 0)
	}
	return frame{raw: append(raw, payload...), op: op, payload: payload}
}
