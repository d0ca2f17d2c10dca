package router

import (
	"strings"
	"testing"
)

// What a goroutine needs to handle messages is lent to one connection after the other,
// of whatever router: the same type is another route there.
func TestConnectionsOfTwoRoutersTakeTurns(t *testing.T) {
	t.Parallel()
	turn := func(name string) (ask func() string) {
		r := New(Options{})
		RPC(r, "whose", func(*Context, struct{}) (string, error) { return name, nil })
		c, client := pair(t, r)
		buf := make([]byte, 1<<10)
		return func() string {
			if _, err := client.Write(maskedFrame(`{"type":"whose","meta":{"correlationId":"1"}}`)); err != nil {
				t.Fatal(err)
			}
			if err := c.stream.Await(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.batch(); err != nil {
				t.Fatal(err)
			}
			c.stream.Out.Flush()
			n, err := client.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			return string(buf[:n])
		}
	}
	ann, bob := turn("ann"), turn("bob")
	for range 20 {
		if got := ann(); !strings.Contains(got, `"payload":"ann"`) {
			t.Fatalf("ann's router answers %q", got)
		}
		if got := bob(); !strings.Contains(got, `"payload":"bob"`) {
			t.Fatalf("bob's router answers %q", got)
		}
	}
}
