package faulttest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/wskit/wskit/internal/redistest"
)

// follower is a client of the topic kept:a. The messages of its one publisher are numbered, so it can compute
// which one comes next.
type follower struct {
	*phone
	next        int // the number of the next message
	pos, ticket string
}

// until reads up to a frame of a type, and returns its payload.
func (f *follower) until(typ string) (payload struct {
	Reason string
	Topics []struct {
		Resumed, Joined bool
		Replayed        int
		Reason          string
	}
}) {
	f.t.Helper()
	for {
		var m struct {
			Type    string
			Meta    struct{ Topic, Pos string }
			Payload json.RawMessage
		}
		frame := f.phone.next()
		if err := json.Unmarshal([]byte(frame), &m); err != nil {
			f.t.Fatalf("%v: %s", err, frame)
		}
		switch m.Type {
		case "said":
			var s Said
			_ = json.Unmarshal(m.Payload, &s)
			if s.N != f.next || m.Meta.Topic != "kept:a" {
				f.t.Fatalf("message %d is expected, and this comes: %s", f.next, frame)
			}
			f.pos = m.Meta.Pos
			f.next++
		case "$ws:subscribed", "$ws:reset":
			var p struct{ Pos, Ticket string }
			_ = json.Unmarshal(m.Payload, &p)
			if f.pos = p.Pos; p.Ticket != "" {
				f.ticket = p.Ticket
			}
		case "RPC_ERROR":
			f.t.Fatal(frame)
		}
		if m.Type == typ {
			_ = json.Unmarshal(m.Payload, &payload)
			return payload
		}
	}
}

// resume resumes on a server.
func (f *follower) resume(s *Server) (outcome string) {
	f.t.Helper()
	f.phone = call(f.t, s, "ann")
	f.send(fmt.Sprintf(`{"type":"$ws:resume","meta":{"correlationId":"r"},"payload":{"topics":[{"ticket":%q,"pos":%q}]}}`, f.ticket, f.pos))
	return fmt.Sprintf("%+v", f.until("$ws:resumed").Topics[0])
}

// A client whose server is killed resumes on another one, and gets what was published meanwhile,
// once. Messages are not lost when the connections of the servers to Redis are, and if Redis is
// started empty, the client gets a reset.
func TestResumeOnAnotherServer(t *testing.T) {
	t.Parallel()
	one, two, redis := twoServersOn(t)
	f := &follower{phone: call(t, one, "ann")}
	f.send(`{"type":"join","meta":{"correlationId":"1"},"payload":{"topic":"kept:a"}}`)
	f.until("join.reply")
	publisher := call(t, two, "bob")
	said := 0
	say := func(n int) {
		t.Helper()
		for range n {
			eventually(t, "a message is published", func() bool { // once, however often: Redis may stand still
				publisher.send(fmt.Sprintf(`{"type":"say","meta":{"correlationId":"1"},"payload":{"topic":"kept:a","n":%d}}`, said))
				var m struct{ Type string }
				_ = json.Unmarshal([]byte(publisher.next()), &m)
				return m.Type == "say.reply"
			})
			said++
		}
	}
	caughtUp := func() {
		t.Helper()
		for f.next < said {
			f.until("said")
		}
	}
	say(10)
	caughtUp()

	// The connections over which messages come are cut, again and again.
	for range 5 {
		redis.Do("CLIENT", "KILL", "TYPE", "pubsub")
		say(20)
	}
	caughtUp()

	one.Kill()
	say(300)
	if got := f.resume(two); got != "{Resumed:true Joined:true Replayed:300 Reason:}" {
		t.Errorf("after its server was killed: %s", got)
	}
	say(1)
	caughtUp()

	redis.Kill()
	redis.Run()
	if got := f.until("$ws:reset").Reason; got != "epoch" {
		t.Errorf("after Redis was started empty: %s", got)
	}
	say(6)
	caughtUp()
}

func twoServersOn(t *testing.T) (one, two *Server, redis *redistest.Server) {
	redis = redistest.Start(t)
	c := testConfig(t, redis)
	return StartServer(t, c), StartServer(t, c), redis
}
