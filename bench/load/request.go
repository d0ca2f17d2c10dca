package load

import (
	"encoding/binary"
	"fmt"
)

// Opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// compressedBit is set in the first byte of a compressed message (RFC 7692, section 6).
const compressedBit = 0x40

// maskKey is not zero, so that a server has real unmasking to do. It need not be
// random: masking guards proxies, and there is none on loopback.
var maskKey = [4]byte{0x5a, 0xc3, 0x96, 0x3c}

// appendMasked appends one final, masked client frame to dst. The opcode may have compressedBit.
func appendMasked(dst []byte, opcode byte, payload []byte) []byte {
	const final, masked = 0x80, 0x80
	dst = append(dst, final|opcode)
	switch n := len(payload); {
	case n <= 125:
		dst = append(dst, masked|byte(n))
	case n <= 0xffff:
		dst = append(dst, masked|126)
		dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	default:
		dst = append(dst, masked|127)
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	dst = append(dst, maskKey[:]...)
	for i, b := range payload {
		dst = append(dst, b^maskKey[i%4])
	}
	return dst
}

// requestRing holds the frames of n requests, twice in a row: any run of up to n
// consecutive requests is then one contiguous slice and costs one write. Their
// correlation ids differ, so no two requests in flight on a connection share one.
type requestRing struct {
	frames []byte
	starts []int // of the frames, and the end of the last one
	n      int
}

func newRequestRing(messageType string, n int) requestRing {
	return newRing(n, func(i int) (opcode byte, payload []byte) { return opText, requestBody(messageType, i) })
}

// newDeflatedRing has requests of 1 KiB, compressed.
func newDeflatedRing(messageType string, n int) requestRing {
	return newRing(n, func(i int) (opcode byte, payload []byte) {
		return opText | compressedBit, deflate(requestOf(messageType, i, longText))
	})
}

func newRing(n int, request func(i int) (opcode byte, payload []byte)) requestRing {
	r := requestRing{n: n}
	for i := range 2 * n {
		r.starts = append(r.starts, len(r.frames))
		opcode, payload := request(i % n)
		r.frames = appendMasked(r.frames, opcode, payload)
	}
	r.starts = append(r.starts, len(r.frames))
	return r
}

// run returns count frames starting with request number from; count is at most n.
func (r requestRing) run(from, count int) []byte {
	first := from % r.n
	return r.frames[r.starts[first]:r.starts[first+count]]
}

const (
	requestRoom = "lobby"
	requestText = "a short line of chat, as people type them"
)

func requestBody(messageType string, number int) []byte {
	return requestOf(messageType, number, requestText)
}

func requestOf(messageType string, number int, text string) []byte {
	return fmt.Appendf(nil,
		`{"type":%q,"meta":{"correlationId":"%s","timestamp":1795228211391},"payload":{"room":%q,"text":%q}}`,
		messageType, correlationID(number), requestRoom, text)
}

// correlationID looks like the UUIDs real clients send and always has their length.
func correlationID(number int) string {
	return fmt.Sprintf("02b7c1de-5f0a-4c3e-9d21-%012x", number)
}
