package router_test

import (
	"testing"

	"github.com/wskit/wskit/router"
)

// What a client publishes reaches the others whatever the client does next, and
// even if it does it in the same packet: no client's messages may wait for another
// that has gone or that stops in the middle of a frame.
func TestPublishedMessagesDoNotWaitForThePublisher(t *testing.T) {
	t.Parallel()
	say := textFrame(`{"type":"say","payload":{"text":"room"}}`)
	for _, c := range []struct {
		name string
		then []byte
		end  bool // the client breaks the protocol
	}{
		{"nothing", nil, false},
		{"part of a header", echo("1", "a")[:1], false},
		{"part of a frame", echo("1", "a")[:20], false},
		{"part of a large frame", rawFrame{b0: fin | opText, payload: "{", declared: 50_000}.bytes(), false},
		{"part of an oversized frame", rawFrame{b0: fin | opText, payload: "{", declared: 1 << 40}.bytes(), false},
		{"a fragment", frame(opText, whole[:20]), false},
		{"part of a ping", ping("hello")[:7], false},
		{"part of an unfinished ping", frame(opPing, "hello")[:7], true},
		{"close", closing(1000, ""), false},
		{"a violation", frame(fin|rsv1|opText, "x"), true},
		{"a handler that hangs", textFrame(`{"type":"hang"}`), false},
		{"a handler that closes", textFrame(`{"type":"bye"}`), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serveSocket(t, router.Options{}, func(r *router.Router) {
				subscribing(r)
				router.On(r, "say", func(c *router.Context, m said) error { return c.Publish(m.Text, "heard", nil) })
				router.On(r, "hang", func(c *router.Context, _ struct{}) error { <-c.Done(); return nil })
				router.On(r, "bye", func(c *router.Context, _ struct{}) error { c.Conn().Close(4000, ""); return nil })
			})
			listener, publisher, other := s.dial(), s.dial(), s.dial()
			listener.write(join1("room"))
			listener.expect("reply j room")
			if c.end { // which a message that waits for its turn does not outlive
				publisher.write(join(say, c.then))
			} else {
				publisher.write(join(say, say, c.then))
				listener.expect("heard ")
			}
			listener.expect("heard ")
			if !c.end {
				// It stays where it is. Another client's messages pass.
				other.write(say)
				listener.expect("heard ")
			}
			publisher.reset()
			other.write(say)
			listener.expect("heard ")
			listener.bye()
			other.bye()
			s.recovered()
		})
	}
}

// The same when the publisher goes before the server has read what it sent.
func TestPublishAndLeave(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		subscribing(r)
		router.On(r, "say", func(c *router.Context, m said) error { return c.Publish(m.Text, "heard", nil) })
	})
	listener := s.dial()
	listener.write(join1("room"))
	listener.expect("reply j room")
	for range 100 {
		p := s.dial()
		p.write(textFrame(`{"type":"say","payload":{"text":"room"}}`))
		p.hangUp()
		listener.expect("heard ")
	}
	listener.bye()
	s.recovered()
}
