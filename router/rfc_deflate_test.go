package router_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"strings"
)

const deflateTail = "\x00\x00\xff\xff"

// deflatedBy compresses a message at a level, with a flush after each part.
func deflatedBy(level int, parts ...string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, level)
	for _, part := range parts {
		_, _ = w.Write([]byte(part))
		_ = w.Flush()
	}
	return strings.TrimSuffix(b.String(), deflateTail)
}

func deflated(payload string) string { return deflatedBy(flate.BestCompression, payload) }

// ended compresses a message with a last block, as RFC 7692, section 7.2.3.4, allows.
func ended(payload string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write([]byte(payload))
	_ = w.Close()
	return b.String() + "\x00"
}

// deflatedFrame is a whole message, compressed.
func deflatedFrame(payload string) []byte { return frame(fin|rsv1|opText, deflated(payload)) }

func compression() (cases []rawCase) {
	reply := []string{"reply 1 whole"}
	notJSON := []string{"ERROR INVALID_ARGUMENT"}
	small := deflated(whole)
	for level := flate.HuffmanOnly; level <= flate.BestCompression; level++ {
		cases = append(cases,
			rawCase{fmt.Sprint("level ", level), frame(fin|rsv1|opText, deflatedBy(level, whole)), reply},
			rawCase{fmt.Sprint("two blocks of level ", level), frame(fin|rsv1|opText, deflatedBy(level, whole[:20], whole[20:])), reply},
			rawCase{fmt.Sprint("binary of level ", level), frame(fin|rsv1|opBinary, deflatedBy(level, whole)), reply},
		)
	}
	for _, size := range []int{80, 100, 125, 126, 127, 128, 256, 1024, 4096, 8192, 16384, 32768, 65535, 65536} {
		request, text := echoOf(size)
		varied := make([]byte, size-len(echoJSON("1", "")))
		for i := range varied {
			varied[i] = 'a' + byte(i*i*7/13%26)
		}
		for _, level := range []int{flate.NoCompression, flate.BestSpeed, flate.BestCompression} {
			cases = append(cases,
				rawCase{fmt.Sprintf("%d bytes at level %d", size, level), frame(fin|rsv1|opText, deflatedBy(level, request)), []string{"reply 1 " + text}},
				rawCase{fmt.Sprintf("%d varied bytes at level %d", size, level), frame(fin|rsv1|opText, deflatedBy(level, echoJSON("1", string(varied)))), []string{"reply 1 " + string(varied)}},
			)
		}
	}
	bomb := deflated(strings.Repeat(" ", 8<<20))
	over, _ := echoOf(65537)
	return append(cases,
		// the examples of RFC 7692, section 7.2.3: "Hello", which is no JSON
		rawCase{"one block", frame(fin|rsv1|opText, "\xf2\x48\xcd\xc9\xc9\x07\x00"), notJSON},
		rawCase{"one block in two fragments", join(frame(rsv1|opText, "\xf2\x48\xcd"), frame(fin|opCont, "\xc9\xc9\x07\x00")), notJSON},
		rawCase{"no compression", frame(fin|rsv1|opText, "\x00\x05\x00\xfa\xffHello\x00"), notJSON},
		rawCase{"the last block", frame(fin|rsv1|opText, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00"), notJSON},
		rawCase{"two blocks in a message", frame(fin|rsv1|opText, "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00"), notJSON},
		rawCase{"an empty message", frame(fin|rsv1|opText, "\x00"), notJSON},
		rawCase{"a message without bytes", frame(fin|rsv1|opText, ""), []string{"close 1007", "end"}},
		rawCase{"a last block", frame(fin|rsv1|opText, ended(whole)), reply},

		rawCase{"not compressed", textFrame(whole), reply},
		rawCase{"compressed and not", join(deflatedFrame(whole), echo("2", "b"), deflatedFrame(whole)), []string{"reply 1 whole", "reply 2 b", "reply 1 whole"}},
		rawCase{"in fragments of a byte", join(frame(rsv1|opText, small[:1]), eachByte(small)[7:]), reply},
		rawCase{"in fragments with pings", join(frame(rsv1|opText, small[:9]), ping("p"), frame(opCont, small[9:20]), ping("q"), frame(fin|opCont, small[20:])), []string{"reply 1 whole", "pong p", "pong q"}},
		rawCase{"in fragments, the last empty", join(frame(rsv1|opText, small), frame(fin|opCont, "")), reply},
		rawCase{"in fragments, the first empty", join(frame(rsv1|opText, ""), frame(fin|opCont, small)), reply},
		rawCase{"a close frame within", join(frame(rsv1|opText, small[:9]), closing(1000, "")), []string{"close 1000", "end"}},
		rawCase{"in fragments, not compressed", join(frame(opText, whole[:9]), frame(fin|opCont, whole[9:])), reply},

		violates("rsv1 of a continuation", join(frame(rsv1|opText, small[:9]), frame(fin|rsv1|opCont, small[9:]))),
		violates("rsv1 of a continuation of what is not compressed", join(frame(opText, whole[:9]), frame(fin|rsv1|opCont, whole[9:]))),
		violates("rsv1 of a ping", frame(fin|rsv1|opPing, "")),
		violates("rsv1 of a pong", frame(fin|rsv1|opPong, "")),
		violates("rsv1 of a close frame", frame(fin|rsv1|opClose, "\x03\xe8")),
		violates("rsv2", frame(fin|rsv1|rsv2|opText, small)),
		violates("rsv3", frame(fin|rsv1|rsv3|opText, small)),
		violates("rsv2 alone", frame(fin|rsv2|opText, small)),
		violates("a reserved opcode", frame(fin|rsv1|3, small)),
		violates("compressed within a message", join(frame(rsv1|opText, small[:9]), deflatedFrame(whole))),

		notText("garbage", frame(fin|rsv1|opText, "\xff\xff\xff\xff\xff\xff")),
		notText("a block of a kind that is not defined", frame(fin|rsv1|opText, "\x06")),
		notText("JSON that is not compressed", frame(fin|rsv1|opText, whole)),
		notText("cut off", frame(fin|rsv1|opText, small[:len(small)/2])),
		notText("a stored block with lengths that differ", frame(fin|rsv1|opText, "\x00\x05\x00\xfa\xfeHello\x00")),
		notText("a stored block that is cut off", frame(fin|rsv1|opText, "\x00\xff\x00\x00\xffHello")),
		notText("a distance before the message", frame(fin|rsv1|opText, "\x02\x42\x00")),
		notText("garbage in fragments", join(frame(rsv1|opText, "\xff\xff"), frame(fin|opCont, "\xff\xff"))),
		notText("garbage that is binary", frame(fin|rsv1|opBinary, "\xff\xff\xff\xff")),
		notText("a context taken over", join(frame(fin|rsv1|opText, "\xf2\x00\x11\x00\x00"))),

		notText("text that is not UTF-8", deflatedFrame("\xff")),
		notText("text that is not UTF-8 in a payload", deflatedFrame(echoJSON("1", "")[:50]+"\xed\xa0\x80\"}}")),
		notText("text that breaks off", deflatedFrame("\xe2\x82")),
		rawCase{"binary that is not UTF-8", frame(fin|rsv1|opBinary, deflated("\xff")), notJSON},
		rawCase{"a character of two fragments", func() []byte {
			b := deflatedBy(flate.NoCompression, `{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"€"}}`)
			i := strings.Index(b, "€") + 1
			return join(frame(rsv1|opText, b[:i]), frame(fin|opCont, b[i:]))
		}(), []string{"reply 1 €"}},

		// The limit counts what a message expands to, and the connection goes on.
		rawCase{"a byte over the limit", join(deflatedFrame(over), deflatedFrame(whole)), []string{"RPC_ERROR 1 RESOURCE_EXHAUSTED", "reply 1 whole"}},
		rawCase{"a bomb", join(frame(fin|rsv1|opText, bomb), deflatedFrame(whole)), []string{"ERROR RESOURCE_EXHAUSTED", "reply 1 whole"}},
		rawCase{"a bomb in fragments", join(frame(rsv1|opText, bomb[:100]), frame(opCont, bomb[100:]), frame(fin|opCont, ""), deflatedFrame(whole)), []string{"ERROR RESOURCE_EXHAUSTED", "reply 1 whole"}},
		rawCase{"a bomb with an id", join(deflatedFrame(echoJSON("7", strings.Repeat("x", 1<<20))), deflatedFrame(whole)), []string{"RPC_ERROR 7 RESOURCE_EXHAUSTED", "reply 1 whole"}},
		rawCase{"more compressed bytes than a message may have", join(frame(fin|rsv1|opText, strings.Repeat("\x00\x00\x00\xff\xff", 40_000)), deflatedFrame(whole)), []string{"ERROR RESOURCE_EXHAUSTED", "reply 1 whole"}},
	)
}

// notAgreed are for a connection without an extension.
var notAgreed = []rawCase{
	violates("compressed", frame(fin|rsv1|opText, deflated(whole))),
	violates("compressed binary", frame(fin|rsv1|opBinary, deflated(whole))),
	violates("compressed fragment", join(frame(rsv1|opText, deflated(whole)), frame(fin|opCont, ""))),
	rawCase{"compressed behind a message", join(echo("1", "a"), frame(fin|rsv1|opText, deflated(whole))), []string{"reply 1 a", "close 1002", "end"}},
}
