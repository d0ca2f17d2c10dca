package routertest_test

import (
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// newEcho is what is tested: the application's own router.
func newEcho() *router.Router {
	r := router.New()
	router.RPC(r, "echo", func(_ *router.Context, text string) (string, error) { return text, nil })
	return r
}

// testTheClient has the Go client of the application talk to its router.
func testTheClient(t *testing.T) {
	s := routertest.New(t, newEcho())
	c, err := client.Dial(t.Context(), "ws://test", client.Options{HTTPClient: s.HTTPClient()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Request[string](t.Context(), c, "echo", "hi"); got != "hi" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Clients of other packages reach the server, without a socket.
func ExampleServer_HTTPClient() {
	_ = testTheClient
}
