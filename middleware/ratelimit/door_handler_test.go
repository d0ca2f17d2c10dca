package ratelimit_test

import (
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// The door before a handler of another library, and before a router that does not
// know of it.
func TestDoorAsMiddleware(t *testing.T) {
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := bearer(r)
		if err == nil {
			err = ratelimit.Identify(r, id)
		}
		if err != nil {
			ingress.Refuse(w, r, err)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			typ, m, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), typ, m) != nil {
				return
			}
		}
	})
	routed := router.New(router.Options{Authenticate: func(r *http.Request) (ingress.Identity, error) {
		id, err := bearer(r)
		if err == nil {
			err = ratelimit.Identify(r, id)
		}
		return id, err
	}})
	for name, handler := range map[string]http.Handler{"another library": other, "a router": routed} {
		t.Run(name, func(t *testing.T) {
			h := &house{t: t, store: memory.NewStore(memory.Options{}), r: routed}
			h.door = ratelimit.NewDoor(h.store, ratelimit.DoorOptions{PerIP: many, PerIdentity: many, MaxPerUser: 2, OnRefused: func(ratelimit.DoorRefusal) {}})
			h.addr = serve(t, &http.Server{Handler: h.door.Handler(handler)})

			first := h.expect(101, "Authorization: Bearer user-ann")
			h.expect(101, "Authorization: Bearer user-ann")
			h.expect(429, "Authorization: Bearer user-ann")
			h.expect(401, "Authorization: Bearer unknown")
			if n := h.store.Stats().Held; n != 2*3 {
				t.Errorf("%d places are held, want 6", n)
			}
			res, err := http.Get("http://" + h.addr + "/")
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusUpgradeRequired {
				t.Errorf("a plain request is answered %s", res.Status)
			}
			_ = first.CloseNow()
			eventually(t, "a place", func() bool { return h.store.Stats().Held == 3 })
			_ = h.expect(101, "Authorization: Bearer user-ann").Close(websocket.StatusNormalClosure, "")
			eventually(t, "a place", func() bool { return h.store.Stats().Held == 3 })
		})
	}
}

func TestIdentifyOutsideOfADoor(t *testing.T) {
	if err := ratelimit.Identify(&http.Request{}, ingress.Identity{User: "ann"}); errors.CodeOf(err) != errors.Internal {
		t.Errorf("%v; a limit that is not there must be noticed", err)
	}
}
