package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"slices"
	"strings"
)

// kind is a message of one size and kind, as its bytes on the wire.
type kind struct {
	name     string
	frame    []byte
	inFlight int
}

func kinds() []kind {
	request := func(text string) string {
		return `{"type":"text","meta":{"correlationId":"02b7c1de-5f0a"},"payload":{"text":"` + text + `"}}`
	}
	const meta = `"meta":{"correlationId":"02b7c1de-5f0a"}`
	zeros := "[" + strings.Repeat("0,", 30_000) + "0]"
	line := request("a short line of chat, as people type them")
	large := request(strings.Repeat("x", 60_000))
	bomb := deflated(request(strings.Repeat("x", 65_000)))
	return []kind{
		{"100 bytes", masked(0x81, line), 32},
		{"100 bytes in two fragments", slices.Concat(masked(0x01, line[:50]), masked(0x80, line[50:])), 32},
		{"60 KB of text", masked(0x81, large), 4},
		{"60 KB in three fragments", slices.Concat(masked(0x01, large[:20_000]), masked(0x00, large[20_000:40_000]), masked(0x80, large[40_000:])), 4},
		{"60 KB of numbers", masked(0x81, `{"type":"numbers",`+meta+`,"payload":`+zeros+`}`), 4},
		{"60 KB of numbers, type last", masked(0x81, `{`+meta+`,"payload":`+zeros+`,"type":"numbers"}`), 4},
		{"compressed, 0.1 KB to 65 KB of text", masked(0xC1, bomb), 32},
		{"compressed, in two fragments", slices.Concat(masked(0x41, bomb[:60]), masked(0x80, bomb[60:])), 32},
		{"compressed, 0.2 KB to 60 KB of numbers", masked(0xC1, deflated(`{"type":"numbers",`+meta+`,"payload":`+zeros+`}`)), 32},
		{"compressed, 0.2 KB to 60 KB of numbers, type last", masked(0xC1, deflated(`{`+meta+`,"payload":`+zeros+`,"type":"numbers"}`)), 32},
		{"compressed, 100 bytes", masked(0xC1, deflated(line)), 32},
	}
}

func deflated(payload string) string {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write([]byte(payload))
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

// masked is a client's frame.
func masked(b0 byte, payload string) []byte {
	mask := [4]byte{0x5a, 0xc3, 0x96, 0x3c}
	b := []byte{b0, 0x80 | byte(len(payload))}
	switch n := len(payload); {
	case n > 0xFFFF:
		b = binary.BigEndian.AppendUint64([]byte{b0, 0x80 | 127}, uint64(n))
	case n > 125:
		b = binary.BigEndian.AppendUint16([]byte{b0, 0x80 | 126}, uint16(n))
	}
	b = append(b, mask[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return b
}
