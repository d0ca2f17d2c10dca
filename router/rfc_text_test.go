package router_test

import (
	"fmt"
	"strings"
)

// Text that is not UTF-8, each with how many of its bytes can still become text.
var invalidText = []struct {
	text string
	good int
}{
	{"\xff", 0}, {"\xfe", 0}, {"\x80", 0}, {"\xbf", 0}, {"a\x80b", 1},
	{"\xc0\x80", 0}, {"\xc1\xbf", 0}, // two bytes for one
	{"\xe0\x80\xaf", 1}, {"\xe0\x9f\xbf", 1}, {"\xf0\x80\x80\xaf", 1}, {"\xf0\x8f\xbf\xbf", 1},
	{"\xed\xa0\x80", 1}, {"\xed\xbf\xbf", 1}, {"\xed\xa0\x80\xed\xb0\x80", 1}, // surrogates
	{"\xf4\x90\x80\x80", 1}, {"\xf5\x80\x80\x80", 0}, {"\xf8\x88\x80\x80\x80", 0}, {"\xfc\x84\x80\x80\x80\x80", 0},
	{"\xc3(", 1}, {"\xe2\x82(", 2}, {"\xe2(\xa1", 1}, {"\xf0\x90\x8c(", 3}, {"\xf0(\x8c\xbc", 1}, {"\xc3\xc3", 1},
	{"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", 12},
	{strings.Repeat("x", 40) + "\xff" + strings.Repeat("y", 40), 40},
}

// Text that only breaks off.
var cutText = []string{"\xc3", "\xe2\x82", "\xe2", "\xf0\x90\x8c", "\xf0\x90", "\xf0", "x\xe1\xbd", strings.Repeat("é", 30) + "\xc3"}

// Text with characters of every length, and those at the ends of the ranges.
var validText = []string{
	"κόσμε", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufffd", "\ufffe", "\uffff", "\U00010000", "\U0010fffe", "\U0010ffff",
	"\ufeffbom", "é€𐍈", strings.Repeat("€", 50), strings.Repeat("x", 31) + "é" + strings.Repeat("y", 31),
}

func notText(name string, send []byte) rawCase {
	return rawCase{name, send, []string{"close 1007", "end"}}
}

func encodings() (cases []rawCase) {
	for _, c := range invalidText {
		inString := `{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"` + c.text + `"}}`
		until := c.text[:c.good+1] // the byte that decides is the last
		cases = append(cases,
			notText(fmt.Sprintf("text %q", c.text), textFrame(c.text)),
			notText(fmt.Sprintf("payload %q", c.text), textFrame(inString)),
			rawCase{fmt.Sprintf("binary payload %q", c.text), frame(fin|opBinary, inString), []string{"RPC_ERROR 1 INVALID_ARGUMENT"}},
			// Fail-fast: nothing more is waited for.
			notText(fmt.Sprintf("fragment %q", until), frame(opText, until)),
			notText(fmt.Sprintf("second fragment %q", until), join(frame(opText, "{"), frame(opCont, until))),
			notText(fmt.Sprintf("part of a frame %q", until), rawFrame{b0: fin | opText, payload: until, declared: 500}.bytes()),
			notText(fmt.Sprintf("part of a large frame %q", until), rawFrame{b0: fin | opText, payload: until, declared: 50_000}.bytes()),
		)
	}
	for _, cut := range cutText {
		cases = append(cases,
			notText(fmt.Sprintf("cut off %q", cut), textFrame(cut)),
			notText(fmt.Sprintf("cut off at the end of fragments %q", cut), join(frame(opText, cut), frame(fin|opCont, ""))),
			notText(fmt.Sprintf("cut off and not continued %q", cut), join(frame(opText, cut), frame(fin|opCont, "x"))),
		)
	}
	for _, text := range validText {
		m := echoJSON("1", "")
		m = m[:len(m)-len(`"}}`)] + text + `"}}`
		want := []string{"reply 1 " + text}
		cases = append(cases,
			rawCase{fmt.Sprintf("text of %.20q", text), textFrame(m), want},
			rawCase{fmt.Sprintf("text of %.20q in fragments of a byte", text), eachByte(m), want},
		)
	}
	large := strings.Repeat("€", 7000)
	return append(cases,
		rawCase{"large text", echo("1", large), []string{"reply 1 " + large}},
		rawCase{"binary", frame(fin|opBinary, whole), []string{"reply 1 whole"}},
		notText("large text with a bad byte at its end", textFrame(large+"\xff")),
		notText("bad text behind a message", join(echo("1", "a"), textFrame("\xff"))).after("reply 1 a"),
		notText("bad text in what is too large", textFrame(strings.Repeat("x", 80_000)+"\xff")).after("ERROR RESOURCE_EXHAUSTED"),
		rawCase{"controls between the bytes of a character", join(
			frame(opText, whole[:len(whole)-3]+"\xe2"), ping("p"), frame(opCont, "\x82"), pong(""), frame(opCont, "\xac"), frame(fin|opCont, whole[len(whole)-3:]),
		), []string{"reply 1 whole€", "pong p"}},
	)
}

// after adds what comes before the end of a case.
func (c rawCase) after(frames ...string) rawCase {
	c.want = append(frames, c.want...)
	return c
}

// sizes are messages at the sizes where the way through the server changes.
func sizes() (cases []rawCase) {
	for _, size := range []int{125, 126, 127, 128, 4095, 4096, 4097, 8170, 8177, 8178, 8179, 8180, 8184, 8191, 8192, 8193, 16 << 10, 16<<10 + 1, 65534, 65535, 65536} {
		request, text := echoOf(size)
		want := []string{"reply 1 " + text}
		cases = append(cases,
			rawCase{fmt.Sprint(size, " bytes of text"), textFrame(request), want},
			rawCase{fmt.Sprint(size, " bytes in two fragments"), join(frame(opText, request[:size/2]), frame(fin|opCont, request[size/2:])), want},
			rawCase{fmt.Sprint(size, " bytes between two messages"), join(echo("0", "a"), textFrame(request), echo("2", "b")), []string{"reply 0 a", want[0], "reply 2 b"}},
		)
	}
	over, _ := echoOf(65537)
	for name, send := range map[string][]byte{
		"one frame":     textFrame(over),
		"two fragments": join(frame(opText, over[:30_000]), frame(fin|opCont, over[30_000:])),
		"far too large": textFrame(over + strings.Repeat(" ", 200_000)),
	} {
		cases = append(cases, rawCase{"a byte over the limit: " + name, join(send, echo("2", "b")), []string{"RPC_ERROR 1 RESOURCE_EXHAUSTED", "reply 2 b"}})
	}
	return cases
}
