package envelope

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/internal/flat"
)

// scanned are frames in the shape that the scanner reads.
var scanned = []string{
	`{"type":"a"}`,
	`{"type":"a","meta":{}}`,
	`{"type":"a","payload":{}}`,
	`{"type":"chat.send","meta":{"timestamp":1795228211391},"payload":{"room":"a","text":"hi"}}`,
	`{"type":"room.join","meta":{"timestamp":1795228211393,"correlationId":"02b7c1de-5f0a-4c3e-9d21-000000000001"},"payload":{"room":"a"}}`,
	`{"type":"room.join","meta":{"correlationId":"02b7","timeoutMs":5000,"idempotencyKey":"k","timestamp":0},"payload":[1,{"x":null}]}`,
	`{"type":"$ws:abort","meta":{"correlationId":"~!#"}}`,
	`{"type":"a","meta":{"correlationId":"","idempotencyKey":""},"payload":-1.5e3}`,
	`{"type":"` + strings.Repeat("x", MaxTypeLength) + `","meta":{"correlationId":"` + strings.Repeat("y", MaxIDLength) + `"},"payload":""}`,
	`{"type":"a","meta":{"timeoutMs":999999999999999999},"payload":"ü"}`,
}

// unusual are frames that are nearly of that shape and that jsontext has to read.
var unusual = []string{
	``, `{`, `{"type":`, `{"type":"`, `{"type":""}`, `{"type":"a"} `, `{"type":"a"}}`, `{"type":"ä"}`, `{"type":"\u0061"}`, "{\"type\":\"a\x1f\"}",
	"{\"type\":\"\xff\"}", "{\"type\":\"a\x7f\"}", ` {"type":"a"}`, `{ "type":"a"}`, `{"type":"a","type":"a"}`, `{"type":"a",}`,
	`{"type":"` + strings.Repeat("x", MaxTypeLength+1) + `"}`,
	`{"meta":{"correlationId":"c"},"type":"a"}`, `{"payload":1,"type":"a"}`,
	`{"type":"a","meta":null}`, `{"type":"a","meta":[]}`, `{"type":"a","meta":{"correlationId":"c"}`, `{"type":"a","meta":{"correlationId":"c",}}`,
	`{"type":"a","meta":{"correlationId":"c","correlationId":"c"}}`, `{"type":"a","meta":{"correlationId":"","correlationId":"c"}}`,
	`{"type":"a","meta":{"timestamp":1,"timestamp":1}}`, `{"type":"a","meta":{"timeoutMs":1,"timeoutMs":1}}`,
	`{"type":"a","meta":{"idempotencyKey":"k","idempotencyKey":"k"}}`, `{"type":"a","meta":{"timeoutMs":1,"timeoutM\u0073":1}}`,
	`{"type":"a","meta":{"timestamp":01}}`, `{"type":"a","meta":{"timestamp":1.5}}`, `{"type":"a","meta":{"timestamp":-1}}`, `{"type":"a","meta":{"timestamp":}}`,
	`{"type":"a","meta":{"timeoutMs":0}}`, `{"type":"a","meta":{"timeoutMs":1e3}}`, `{"type":"a","meta":{"timeoutMs":9223372036854775808}}`,
	`{"type":"a","meta":{"timeoutMs":99999999999999999999999}}`, `{"type":"a","meta":{"correlationId":7}}`, `{"type":"a","meta":{"x":1}}`,
	`{"type":"a","meta":{"correlationId":"` + strings.Repeat("y", MaxIDLength+1) + `"}}`,
	`{"type":"a","meta":{},"meta":{}}`, `{"type":"a","meta":{}"payload":1}`,
	`{"type":"a","payload":}`, `{"type":"a","payload":1`, `{"type":"a","payload":01}`, `{"type":"a","payload":1 }`, `{"type":"a","payload": 1}`, `{"type":"a","payload":1}x`,
	`{"type":"a","payload":1,"payload":1}`, `{"type":"a","payload":1,"type":"b"}`, `{"type":"a","payload":1,"meta":{"correlationId":"c"}}`,
	`{"type":"a","payload":{"x":1,"x":1}}`, "{\"type\":\"a\",\"payload\":\"\xff\"}", `{"type":"a","payload":1]`, `{"type":"a","payload":{"type":"b"}}}`,
	`{"type":"a","payload":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
	`{"type":"a","payload":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`,
}

// The scanner reads what it is made for: otherwise all that follows would hold, and
// nothing be gained.
func TestScannerReadsTheUsualShape(t *testing.T) {
	for _, frame := range scanned {
		s := scanner{flat.Reader{Bytes: []byte(frame)}}
		var e Envelope
		if _, _, ok := s.head(&e); !ok {
			t.Errorf("the head of %.100s is left to jsontext", frame)
		}
	}
}

func TestScannerAgrees(t *testing.T) {
	for _, frame := range slices.Concat(scanned, unusual) {
		scannerAgrees(t, []byte(frame))
	}
}

// What differs in one byte from a frame of the usual shape: one is cut off, taken out,
// replaced, or put in.
func TestScannerAgreesOnNeighbours(t *testing.T) {
	const telling = "\"\\{}[],: \n019-.eEnut\x00\x1f\x7f\x80\xc3\xff"
	for _, frame := range scanned {
		if len(frame) > 200 {
			continue
		}
		for i := range len(frame) {
			before, after := frame[:i], frame[i+1:]
			scannerAgrees(t, []byte(before))
			scannerAgrees(t, []byte(before+after))
			for j := range len(telling) {
				scannerAgrees(t, []byte(before+telling[j:j+1]+after))
				scannerAgrees(t, []byte(before+telling[j:j+1]+frame[i:]))
			}
		}
	}
}

// FuzzScanner holds the scanner against the reading of tokens: whatever a frame is,
// both must find the same in it, or be of the same opinion of what is wrong.
func FuzzScanner(f *testing.F) {
	for _, frame := range slices.Concat(scanned, unusual) {
		if len(frame) < 1<<10 {
			f.Add([]byte(frame))
		}
	}
	f.Fuzz(scannerAgrees)
}

func scannerAgrees(t *testing.T, frame []byte) {
	t.Helper()
	frame = frame[:len(frame):len(frame)] // reading beyond it panics
	var p, tokens Peeker
	got, complete, err := p.head(frame) // as it is for small frames
	want, wantComplete, wantErr := tokens.read(frame, true)
	same := func(what string) {
		t.Helper()
		if complete != wantComplete || err != wantErr || p.HasMeta() != tokens.HasMeta() || !got.equal(want) {
			t.Fatalf("%s of %.300q:\ngot  %s, complete %v, meta %v, error %v\nwant %s, complete %v, meta %v, error %v",
				what, frame, got.text(), complete, p.HasMeta(), err, want.text(), wantComplete, tokens.HasMeta(), wantErr)
		}
	}
	same("the head")
	if !complete {
		err, wantErr = p.Rest(&got), tokens.Rest(&want)
		same("the rest")
	}
	got, err = p.Peek(frame)
	same("all")
	tookAgrees(t, frame)
}

// tookAgrees has the payload read elsewhere, and expects what Rest says.
func tookAgrees(t *testing.T, frame []byte) {
	t.Helper()
	var p, other Peeker
	got, complete, _ := p.Head(frame)
	tail := p.Tail()
	if complete || tail == nil || len(tail) > maxAlone {
		return
	}
	payload, err := jsontext.NewDecoder(bytes.NewReader(tail)).ReadValue()
	if err != nil || !p.Took(&got, tail[len(payload):]) {
		return
	}
	want, err := other.Peek(frame)
	if err != nil || !got.equal(want) {
		t.Fatalf("%.300q: the payload was read by itself, and the envelope is %s, want %s, error %v", frame, got.text(), want.text(), err)
	}
}

func (e Envelope) equal(o Envelope) bool {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	return same(e.Type, o.Type) && same(e.CorrelationID, o.CorrelationID) && same(e.IdempotencyKey, o.IdempotencyKey) &&
		e.TimeoutMs == o.TimeoutMs && same(e.Payload, o.Payload)
}

func (e Envelope) text() string {
	return strings.Join([]string{string(e.Type), string(e.CorrelationID), string(e.IdempotencyKey), string(e.Payload)}, " | ")
}
