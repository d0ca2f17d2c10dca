package router_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// lingering counts the connections that linger. stacks has room for the stacks of all goroutines.
func lingering(stacks []byte) int {
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ".(*Stream).Linger(")
}

// A connection that has been silent waits a moment on the stack that its message has made grow. Of many connections
// only a few do, and none for longer; all are served after it as before.
func TestFewConnectionsLinger(t *testing.T) {
	const most, connections = 64, 100
	s := serveSocket(t, router.Options{}, nil)
	stacks := make([]byte, 8<<20)
	lingering := func() int { return lingering(stacks) }
	all := make([]*peer, connections)
	highest := 0
	for i := range all {
		all[i] = s.dial()
		all[i].write(echo("1", "x"))
		all[i].expect("reply 1 x")
		highest = max(highest, lingering())
	}
	if highest == 0 || highest > most {
		t.Errorf("%d connections lingered at the same time, want 1 to %d", highest, most)
	}
	eventually(t, "no connection to linger", func() bool { return lingering() == 0 })
	for i, p := range all {
		text := fmt.Sprint(i)
		p.write(echo("2", text))
		p.expect("reply 2 " + text)
	}
}

// A connection that is checked for another reason while it lingers, and next after a long time, still lingers only a moment.
func TestLingerEndsAfterAnotherCheck(t *testing.T) {
	takesTime(t)
	s := serveSocket(t, router.Options{
		Authenticate: func(*http.Request) (ingress.Identity, error) {
			notice := 100 * time.Millisecond // from now, a minute before the identity expires
			return ingress.Identity{User: "ann", ExpiresAt: time.Now().Add(time.Minute + notice)}, nil
		},
		Renew: func(context.Context, *router.Conn, string) (ingress.Identity, error) {
			return ingress.Identity{User: "ann"}, nil
		},
	}, nil)
	p := s.dial()
	p.write(echo("1", "x"))
	p.expect("reply 1 x")
	stacks := make([]byte, 1<<20)
	eventually(t, "the connection not to linger", func() bool { return lingering(stacks) == 0 })
}
