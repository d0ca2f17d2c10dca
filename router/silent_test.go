package router_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/wskit/wskit/router"
)

// A connection that was silent before a message and is silent after it waits on a small stack, not on the one that the
// message has made grow. Its next message is handled as before.
func TestSilentConnectionsWaitOnSmallStacks(t *testing.T) {
	const connections = 100
	s := serveSocket(t, router.Options{}, nil)
	all := make([]*peer, connections)
	for i := range all {
		all[i] = s.dial()
		all[i].write(echo("1", "x"))
		all[i].expect("reply 1 x")
	}
	stacks := make([]byte, 8<<20)
	eventually(t, "all to wait on a small stack", func() bool {
		text := string(stacks[:runtime.Stack(stacks, true)])
		return strings.Count(text, "router.(*Conn).rest(") >= connections && !strings.Contains(text, "router.(*Conn).read(")
	})
	for i, p := range all {
		text := fmt.Sprint(i)
		p.write(echo("2", text))
		p.expect("reply 2 " + text)
	}
}
