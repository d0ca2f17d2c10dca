package router

import "testing"

func TestSlips(t *testing.T) {
	t.Parallel()
	for text, slip := range map[string]bool{
		"chat.sned": true, "chat.snd": true, "chat.sennd": true, "chat.sent": true, "chat.Send": true, "hat.send": true, "chat.sendd": true,
		"chat.s": false, "chat.sen.": true, "": false, "chat": false, "char.sent": false, "dnes.tahc": false, "chat.join": false,
		"\xff\xfe": false, "chat.send.now": false,
	} {
		if isSlip([]byte(text), "chat.send") != slip {
			t.Errorf("%q counts as a slip of chat.send: %v", text, !slip)
		}
	}
}
