package main

import (
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/exampletest"
	"github.com/wskit/wskit/internal/redistest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// Devices of a user on two servers act as one.
func TestDevices(t *testing.T) {
	redis := redistest.Start(t)
	one, two := exampletest.Start(t, "-redis", redis.URL()), exampletest.Start(t, "-redis", redis.URL())
	phone, tablet, bob := one.Dial("ann"), two.Dial("ann"), two.Dial("bob")
	request := func(c *exampletest.Client, id string) Devices {
		t.Helper()
		return exampletest.Payload[Devices](c, c.Request("message.send", Send{id, "bob", "hi"}, id), "message.send.reply")
	}

	// All devices of both get the message, except for the one that sent it. Sent again, from
	// another device, it has the same answer and reaches no device.
	first := request(phone, "a")
	want := Message{"ann", Send{"a", "bob", "hi"}}
	for _, c := range []*exampletest.Client{bob, tablet} {
		if m := exampletest.Payload[Message](c, c.Expect("message"), "message"); m != want || first != (Devices{"bob", 1}) {
			t.Errorf("got %+v, want %+v; sent to %+v", m, want, first)
		}
	}
	if again := request(tablet, "a"); again != first {
		t.Errorf("sent again: %+v, first: %+v", again, first)
	}
	request(tablet, "b")
	if m := exampletest.Payload[Message](bob, bob.Expect("message"), "message"); m.ID != "b" {
		t.Errorf("the next message is %+v", m)
	}

	bob.Send("message.read", Receipt{"a", "ann"}, nil)
	for _, c := range []*exampletest.Client{phone, tablet} {
		if r := exampletest.Payload[Receipt](c, c.Expect("receipt"), "receipt"); r != (Receipt{"a", "bob"}) {
			t.Errorf("the receipt is %+v", r)
		}
	}

	// Other devices are signed out if the user confirms.
	for _, yes := range []bool{false, true} {
		phone.Send("devices.signOut", nil, map[string]any{"correlationId": "out"})
		question := phone.Expect("confirm")
		if q := exampletest.Payload[Devices](phone, question, "confirm"); q.Count != 1 {
			t.Errorf("the question is %+v", q)
		}
		phone.Send("$ws:answer", yes, map[string]any{"correlationId": question.Meta.CorrelationID})
		out := exampletest.Payload[Devices](phone, phone.Expect("devices.signOut.reply"), "devices.signOut.reply")
		if (out.Count == 1) != yes {
			t.Errorf("answered %v: %d devices are signed out", yes, out.Count)
		}
	}
	if code := tablet.ExpectClose(); code != 4100 {
		t.Errorf("the tablet is closed with %d", code)
	}

	// Moderators suspend users; others do not.
	mia := one.Dial("moderator:mia")
	if e := exampletest.Payload[errors.Error](bob, bob.Request("user.suspend", Devices{User: "ann"}, ""), "RPC_ERROR"); e.Code != errors.PermissionDenied {
		t.Errorf("got %s", e.Code)
	}
	suspended := exampletest.Payload[Devices](mia, mia.Request("user.suspend", Devices{User: "bob"}, ""), "user.suspend.reply")
	if code := bob.ExpectClose(); suspended.Count != 1 || code != errors.ClosePolicy {
		t.Errorf("%d devices are closed, with %d", suspended.Count, code)
	}

	// A device whose server was killed is not counted.
	again := two.Dial("bob")
	if s := request(phone, "c"); s.Count != 1 {
		t.Errorf("bob has %d devices", s.Count)
	}
	again.Expect("message")
	two.Kill()
	if s := request(phone, "d"); s.Count != 0 {
		t.Errorf("bob has %d devices at a killed server", s.Count)
	}
}
