package routertest_test

import (
	"testing"

	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Frame.Meta.Own has the application's members of a frame's meta, and those of the protocol are not in it.
func TestOwnMeta(t *testing.T) {
	r := router.New()
	router.RPC(r, "echo", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Send("sent", nil, router.SendOptions{Meta: router.Meta{"trace": "7", "n": 1}})
	})
	c := routertest.New(t, r).Dial()
	c.SendRaw(`{"type":"echo","meta":{"correlationId":"1"}}`)
	if f := c.ExpectAny("sent"); len(f.Meta.Own) != 2 || string(f.Meta.Own["trace"]) != `"7"` || string(f.Meta.Own["n"]) != "1" {
		t.Errorf("own members of %s: %v", f.Raw, f.Meta.Own)
	}
	if f := c.ExpectAny("echo.reply"); f.Meta.CorrelationID != "1" || len(f.Meta.Own) != 0 {
		t.Errorf("own members of %s: %v", f.Raw, f.Meta.Own)
	}
}
