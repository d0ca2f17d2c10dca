package router_test

import (
	"bytes"
	"testing"

	"github.com/wskit/wskit/router"
)

// A client may send a thousand frames that bring no message; more, within seconds, end
// the connection, within a message as outside of one.
func TestFloodsWithoutMessages(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	for _, c := range []struct {
		name  string
		begin []byte
		flood []byte
	}{
		{"pings", nil, ping("p")},
		{"pongs", nil, pong("p")},
		{"pings within a message", frame(opText, "{"), ping("p")},
		{"pongs within a message", frame(opText, "{"), pong("p")},
		{"fragments without a payload", frame(opText, "{"), frame(opCont, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.dial()
			p.t = t
			go func() {
				_ = p.tryWrite(c.begin)
				// The close frame is what a server without a bound answers.
				_ = p.tryWrite(join(bytes.Repeat(c.flood, 5000), closing(1000, "")))
			}()
			pongs := 0
			f := p.next()
			for ; f == "pong p"; f = p.next() {
				pongs++
			}
			if f != "close 1008" {
				t.Errorf("got %.100q after %d pongs, want the connection to be closed with 1008", f, pongs)
			}
			p.hangUp()
		})
	}
	s.recovered()
}

// Messages begin the count anew, so that keepalives beside them, however many, are no
// flood, and a thousand in one go are none.
func TestControlFramesBesideMessages(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	p := s.dial()
	const rounds = 10
	go func() {
		for range rounds {
			_ = p.tryWrite(join(bytes.Repeat(join(ping("p"), pong("")), 490), frame(opText, whole[:9]), ping("q"), frame(fin|opCont, whole[9:])))
		}
	}()
	for replies := 0; replies < rounds; {
		switch f := p.next(); f {
		case "reply 1 whole":
			replies++
		case "pong p", "pong q":
		default:
			t.Fatalf("got %.100q after %d replies", f, replies)
		}
	}
	p.bye()
	s.recovered()
}
