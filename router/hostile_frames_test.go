package router_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wskit/wskit/router"
)

// rawCase is what a client sends and what it gets: data frames in order, then
// pongs in order, then how it ended. A case without "close" or "end" is ended by
// the client with 1000, to show that the connection is still good.
type rawCase struct {
	name string
	send []byte
	want []string
}

func violates(name string, send []byte) rawCase {
	return rawCase{name, send, []string{"close 1002", "end"}}
}

var (
	whole  = echoJSON("1", "whole")
	thirds = [3]string{whole[:10], whole[10:40], whole[40:]}
)

var fragmentation = []rawCase{
	{"one frame", textFrame(whole), []string{"reply 1 whole"}},
	{"two parts", join(frame(opText, whole[:20]), frame(fin|opCont, whole[20:])), []string{"reply 1 whole"}},
	{"three parts", join(frame(opText, thirds[0]), frame(opCont, thirds[1]), frame(fin|opCont, thirds[2])), []string{"reply 1 whole"}},
	{"a part for each byte", eachByte(whole), []string{"reply 1 whole"}},
	{"empty first part", join(frame(opText, ""), frame(fin|opCont, whole)), []string{"reply 1 whole"}},
	{"empty middle parts", join(frame(opText, whole[:20]), frame(opCont, ""), frame(opCont, ""), frame(fin|opCont, whole[20:])), []string{"reply 1 whole"}},
	{"empty last part", join(frame(opText, whole), frame(fin|opCont, "")), []string{"reply 1 whole"}},
	{"nothing but empty parts", join(frame(opText, ""), frame(opCont, ""), frame(fin|opCont, "")), []string{"ERROR INVALID_ARGUMENT"}},
	{"empty message", textFrame(""), []string{"ERROR INVALID_ARGUMENT"}},
	{"empty binary message", frame(fin|opBinary, ""), []string{"ERROR INVALID_ARGUMENT"}},
	{"binary in two parts", join(frame(opBinary, whole[:20]), frame(fin|opCont, whole[20:])), []string{"reply 1 whole"}},
	{"one message after another", join(
		frame(opText, whole[:20]), frame(fin|opCont, whole[20:]), echo("2", "b"),
		frame(opText, whole[:9]), frame(fin|opCont, whole[9:]),
	), []string{"reply 1 whole", "reply 2 b", "reply 1 whole"}},
	{"ping between parts", join(frame(opText, whole[:20]), ping("p"), frame(fin|opCont, whole[20:])), []string{"reply 1 whole", "pong p"}},
	{"pings between all parts", join(
		frame(opText, thirds[0]), ping("p"), frame(opCont, thirds[1]), ping("q"), ping(""), frame(fin|opCont, thirds[2]),
	), []string{"reply 1 whole", "pong p", "pong q", "pong "}},
	{"pong between parts", join(frame(opText, whole[:20]), pong("p"), frame(fin|opCont, whole[20:])), []string{"reply 1 whole"}},
	{"close between parts", join(frame(opText, whole[:20]), closing(1000, ""), frame(fin|opCont, whole[20:])), []string{"close 1000", "end"}},
	violates("continuation of nothing", frame(fin|opCont, whole)),
	violates("unfinished continuation of nothing", frame(opCont, whole)),
	violates("continuation after a finished message", join(frame(opText, whole[:20]), frame(fin|opPong, ""), frame(fin|opText, whole[20:]))),
	violates("text within a message", join(frame(opText, whole[:20]), textFrame(whole))),
	violates("first part within a message", join(frame(opText, whole[:20]), frame(opText, whole[20:]))),
	violates("binary within a message", join(frame(opText, whole[:20]), frame(fin|opBinary, whole))),
	{"continuation after a whole message", join(textFrame(whole), frame(fin|opCont, whole)), []string{"reply 1 whole", "close 1002", "end"}},
}

var control = []rawCase{
	{"ping", ping("hello"), []string{"pong hello"}},
	{"empty ping", ping(""), []string{"pong "}},
	{"longest ping", ping(strings.Repeat("p", 125)), []string{"pong " + strings.Repeat("p", 125)}},
	{"ping of all bytes", ping("\x00\xff\xfe\x80"), []string{"pong \x00\xff\xfe\x80"}},
	{"unasked pongs", join(pong(""), pong("x"), pong(strings.Repeat("p", 125)), textFrame(whole)), []string{"reply 1 whole"}},
	{"ping between messages", join(echo("1", "a"), ping("p"), echo("2", "b")), []string{"reply 1 a", "reply 2 b", "pong p"}},
	violates("ping of 126 bytes", ping(strings.Repeat("p", 126))),
	violates("pong of 126 bytes", pong(strings.Repeat("p", 126))),
	violates("ping of 65536 bytes", ping(strings.Repeat("p", 65536))),
	violates("close of 126 bytes", closing(1000, strings.Repeat("r", 124))),
	violates("unfinished ping", frame(opPing, "p")),
	violates("unfinished pong", frame(opPong, "p")),
	violates("unfinished close", frame(opClose, "\x03\xe8")),
	violates("unfinished ping within a message", join(frame(opText, whole[:20]), frame(opPing, "p"))),
	violates("ping in two parts", join(frame(opPing, "p"), frame(fin|opCont, "q"))),
}

func reserved() (cases []rawCase) {
	for _, bits := range []byte{rsv1, rsv2, rsv3, rsv1 | rsv2, rsv1 | rsv3, rsv2 | rsv3, rsv1 | rsv2 | rsv3} {
		for name, op := range map[string]byte{"text": opText, "binary": opBinary, "ping": opPing, "pong": opPong, "close": opClose} {
			cases = append(cases, violates(fmt.Sprintf("reserved bits %03b of %s", bits>>4, name), frame(fin|bits|op, "")))
		}
		cases = append(cases,
			violates(fmt.Sprintf("reserved bits %03b of a continuation", bits>>4),
				join(frame(opText, whole[:20]), frame(fin|bits|opCont, whole[20:]))),
			rawCase{fmt.Sprintf("reserved bits %03b after a message", bits>>4),
				join(textFrame(whole), frame(fin|bits|opText, whole), textFrame(whole)),
				[]string{"reply 1 whole", "close 1002", "end"}},
		)
	}
	for _, op := range []byte{3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF} {
		cases = append(cases,
			violates(fmt.Sprintf("reserved opcode %#x", op), frame(fin|op, "")),
			violates(fmt.Sprintf("reserved opcode %#x with a payload", op), frame(fin|op, whole)),
			violates(fmt.Sprintf("unfinished reserved opcode %#x", op), frame(op, "x")),
			violates(fmt.Sprintf("reserved opcode %#x within a message", op), join(frame(opText, whole[:20]), frame(fin|op, "x"))),
		)
	}
	return cases
}

var masking = []rawCase{
	violates("unmasked text", rawFrame{b0: fin | opText, payload: whole, unmasked: true}.bytes()),
	violates("unmasked empty text", rawFrame{b0: fin | opText, unmasked: true}.bytes()),
	violates("unmasked binary", rawFrame{b0: fin | opBinary, payload: whole, unmasked: true}.bytes()),
	violates("unmasked ping", rawFrame{b0: fin | opPing, payload: "p", unmasked: true}.bytes()),
	violates("unmasked pong", rawFrame{b0: fin | opPong, payload: "p", unmasked: true}.bytes()),
	violates("unmasked close", rawFrame{b0: fin | opClose, payload: "\x03\xe8", unmasked: true}.bytes()),
	violates("unmasked continuation", join(frame(opText, whole[:20]), rawFrame{b0: fin | opCont, payload: whole[20:], unmasked: true}.bytes())),
	{"unmasked after a message", join(textFrame(whole), rawFrame{b0: fin | opText, payload: whole, unmasked: true}.bytes()), []string{"reply 1 whole", "close 1002", "end"}},
}

var closes = func() (cases []rawCase) {
	for _, code := range []uint16{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		cases = append(cases, rawCase{fmt.Sprint("close ", code), closing(code, ""), []string{fmt.Sprint("close ", code), "end"}})
	}
	for _, code := range []uint16{0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		cases = append(cases, violates(fmt.Sprint("close ", code), closing(code, "")))
	}
	longest := strings.Repeat("é", 61) + "r"
	return append(cases,
		rawCase{"close without a code", frame(fin|opClose, ""), []string{"close", "end"}},
		violates("close with half a code", frame(fin|opClose, "\x03")),
		rawCase{"close with a reason", closing(1000, "bye"), []string{"close 1000", "end"}},
		rawCase{"close with the longest reason", closing(1000, longest), []string{"close 1000", "end"}},
		rawCase{"frames after close", join(closing(1000, ""), textFrame(whole), ping("p"), closing(1001, "")), []string{"close 1000", "end"}},
		rawCase{"violation after close", join(closing(1000, ""), frame(fin|rsv1|0xF, "x")), []string{"close 1000", "end"}},
		rawCase{"close after messages", join(echo("1", "a"), echo("2", "b"), closing(4000, "x")), []string{"reply 1 a", "reply 2 b", "close 4000", "end"}},
	)
}()

var lengths = []rawCase{
	violates("16-bit length of an empty message", rawFrame{b0: fin | opText, length: 126}.bytes()),
	violates("16-bit length of a short message", rawFrame{b0: fin | opText, payload: whole, length: 126}.bytes()),
	violates("16-bit length of 125 bytes", rawFrame{b0: fin | opText, payload: strings.Repeat(" ", 125), length: 126}.bytes()),
	violates("64-bit length of an empty message", rawFrame{b0: fin | opText, length: 127}.bytes()),
	violates("64-bit length of a short message", rawFrame{b0: fin | opText, payload: whole, length: 127}.bytes()),
	violates("64-bit length of 126 bytes", rawFrame{b0: fin | opText, payload: strings.Repeat(" ", 126), length: 127}.bytes()),
	violates("64-bit length of 65535 bytes", rawFrame{b0: fin | opText, payload: strings.Repeat(" ", 65535), length: 127}.bytes()),
	violates("16-bit length of a short continuation", join(frame(opText, whole[:20]), rawFrame{b0: fin | opCont, payload: whole[20:], length: 126}.bytes())),
	violates("16-bit length of a ping", rawFrame{b0: fin | opPing, payload: "p", length: 126}.bytes()),
	violates("64-bit length of a ping", rawFrame{b0: fin | opPing, payload: "p", length: 127}.bytes()),
	violates("16-bit length of a close frame", rawFrame{b0: fin | opClose, payload: "\x03\xe8", length: 126}.bytes()),
	violates("64-bit length with the high bit", rawFrame{b0: fin | opText, declared: 1 << 63}.bytes()),
	violates("64-bit length of all ones", rawFrame{b0: fin | opText, declared: 1<<64 - 1}.bytes()),
	violates("64-bit length with the high bit, unmasked", rawFrame{b0: fin | opText, declared: 1<<63 + 5, unmasked: true}.bytes()),
	violates("continuation with the high bit", join(frame(opText, "{"), rawFrame{b0: fin | opCont, declared: 1 << 63}.bytes())),
	violates("ping of 2^62 bytes", rawFrame{b0: fin | opPing, declared: 1 << 62}.bytes()),
}

func eachByte(message string) (b []byte) {
	for i := range len(message) {
		b0 := byte(opCont)
		if i == 0 {
			b0 = opText
		}
		if i == len(message)-1 {
			b0 |= fin
		}
		b = append(b, frame(b0, message[i:i+1])...)
	}
	return b
}

// inSteps splits what is sent into pieces of at most n bytes.
func inSteps(n int) func([]byte) int {
	return func(b []byte) int { return min(n, len(b)) }
}

// A reason that is not UTF-8 must not come back to the client: RFC 6455, 5.5.1
// and 8.1.
func TestCloseReasonThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	for _, bad := range append([]string{"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80b"}, cutText...) {
		for name, send := range map[string][]byte{
			"alone":             closing(1000, bad),
			"after a message":   join(echo("1", "a"), closing(1000, bad)),
			"between fragments": join(frame(opText, whole[:20]), closing(1000, bad)),
		} {
			for _, step := range []int{1, 5, 1 << 10} {
				got := s.converse(rawCase{"", send, []string{"end"}}, inSteps(step), nil)
				if n := len(got); n < 2 || got[n-2] != "close 1007" {
					t.Errorf("reason %q %s, in steps of %d bytes: got %q, want a close with 1007", bad, name, step, got)
				}
			}
		}
	}
	s.recovered()
}

func TestCloseEchoesTheReason(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	p := s.dial()
	p.write(closing(4321, "so long"))
	f, err := p.read()
	if want := string(binary.BigEndian.AppendUint16(nil, 4321)) + "so long"; err != nil || f.b0 != fin|opClose || string(f.payload) != want {
		t.Errorf("got %#x %q, %v; want a close frame of %q", f.b0, f.payload, err, want)
	}
	p.expect("end")
	s.recovered()
}

// Both sides close at once: each sends its own close frame before it has seen
// the other's, and each gets exactly one.
func TestCloseFromBothSides(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		router.On(r, "bye", func(c *router.Context, _ struct{}) error {
			c.Conn().Close(4001, "server")
			return nil
		})
	})
	for _, c := range []struct {
		name   string
		then   []byte
		sooner string // what comes when the handler is kept from running until all is read
	}{
		{"the client's follows at once", closing(4002, "client"), "close 4002"},
		{"data in between", join(textFrame(whole), ping("p"), closing(4002, "client")), "close 4002"},
		{"violation in between", frame(fin|rsv2|opText, whole), "close 1002"},
		{"fragments in between", join(frame(opText, whole[:9]), frame(fin|opCont, whole[9:]), closing(1000, "")), "close 1000"},
	} {
		sent := rawCase{c.name, join(textFrame(`{"type":"bye"}`), c.then), []string{"close 4001", "end"}}
		for _, step := range []int{1, 1 << 20} {
			got := s.converseUnless(sent, inSteps(step), nil, func(got []string) bool { return slices.Contains(got, c.sooner) })
			if !slices.Equal(got, sent.want) {
				t.Errorf("%s, in steps of %d: got %q, want %q", c.name, step, got, sent.want)
			}
		}
	}
	s.recovered()
}

// A conversation of all kinds of frames, split in two at every byte.
func TestSplitAtEveryByte(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	conversation := join(
		echo("1", "a"), ping("p"), frame(opText, whole[:20]), pong(""), frame(fin|opCont, whole[20:]),
		frame(fin|opBinary, echoJSON("2", strings.Repeat("x", 200))), textFrame("nonsense"),
	)
	want := []string{"reply 1 a", "reply 1 whole", "reply 2 " + strings.Repeat("x", 200), "ERROR INVALID_ARGUMENT", "pong p"}
	slices.Sort(want)
	const together = 20 // connections, so that the test does not wait for the answers of one after the other
	for first := 1; first < len(conversation); first += together {
		var peers []*peer
		for at := first; at < min(first+together, len(conversation)); at++ {
			p := s.dial()
			p.write(conversation[:at])
			peers = append(peers, p)
		}
		// Whether the server reads the first half alone is left to chance; over
		// all splits it does so often enough.
		for i, p := range peers {
			p.write(conversation[first+i:])
		}
		for i, p := range peers {
			var got []string
			for range want {
				got = append(got, p.next())
			}
			slices.Sort(got) // a bad frame's answer may overtake those of handlers that take long
			if !slices.Equal(got, want) {
				t.Errorf("split at byte %d: got %.60q, want %.60q", first+i, got, want)
			}
			p.bye()
		}
	}
	s.recovered()
}
