package ratelimit_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Messages are published to a topic with a history and to one without, in two processes, by handlers and by goroutines. The
// members get as many as the limit admits. For each of the others, Publish has returned an error.
func TestPerTopic(t *testing.T) {
	t.Parallel()
	const capacity, each = 7, 5
	for name, history := range map[string]bool{"with history": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := memory.NewBroker()
			perTopic := newLimiter(capacity, limit.Options{Name: "topics"})
			var admitted, refused atomic.Int64
			count := func(err error) {
				switch errors.CodeOf(err) {
				case "":
					admitted.Add(1)
				case errors.ResourceExhausted:
					refused.Add(1)
				default:
					t.Errorf("Publish: %v", err)
				}
			}
			var publish []func()
			var last *router.Router
			var members []*routertest.Client
			for range 2 { // processes
				r := router.New(router.Options{Backend: adapters.Backend{Broker: broker}})
				last = r
				r.AddHooks(router.Hooks{BeforePublish: ratelimit.PerTopic(perTopic)})
				if history {
					r.History("room", router.HistoryOptions{Messages: 100})
				}
				said := router.Declare[string](r, "said")
				router.RPC(r, "join", func(c *router.Context, _ struct{}) (struct{}, error) { return struct{}{}, c.Subscribe("room") })
				router.RPC(r, "say", func(c *router.Context, _ struct{}) (struct{}, error) {
					count(said.Publish(c, "room", "by a handler"))
					count(c.Publish("room", "said", "by its context"))
					return struct{}{}, nil
				})
				s := routertest.New(t, r)
				member := s.Dial(routertest.DialOptions{})
				routertest.ExpectReply[struct{}](member.Request("join", nil))
				members = append(members, member)
				publish = append(publish, func() {
					for range each {
						count(r.Publish(t.Context(), "room", "said", "by a goroutine"))
						routertest.ExpectReply[struct{}](s.Dial(routertest.DialOptions{}).Request("say", nil))
					}
				})
			}
			var publishing sync.WaitGroup
			for _, f := range publish {
				publishing.Go(f)
			}
			publishing.Wait()
			if admitted.Load() != capacity || refused.Load() != 2*3*each-capacity {
				t.Errorf("%d messages were admitted and %d refused; the limit is %d of %d", admitted.Load(), refused.Load(), capacity, 2*3*each)
			}
			if err := last.Publish(t.Context(), "other", "said", "to a topic with a limit of its own"); err != nil {
				t.Error(err)
			}
			for _, m := range members {
				for range capacity {
					routertest.ExpectEvent[string](m, "said")
				}
				routertest.ExpectReply[struct{}](m.Request("join", nil)) // comes after what was queued before
				for _, f := range m.Frames() {
					if f.Type == "said" {
						t.Errorf("a member got more than the limit admits: %v", f)
					}
				}
			}
		})
	}
}

// A handler that returns the refusal of a publication answers it like that of a frame, reported once.
func TestPerTopicInHandlers(t *testing.T) {
	t.Parallel()
	r := newRouter()
	r.AddHooks(router.Hooks{BeforePublish: ratelimit.PerTopic(newLimiter(1, limit.Options{Name: "topics"}))})
	router.RPC(r.Router, "post", func(c *router.Context, _ struct{}) (struct{}, error) {
		return struct{}{}, c.Publish("room", "said", nil)
	})
	c := dial(routertest.New(t, r.Router), "ann")
	routertest.ExpectReply[struct{}](c.Request("post", nil))
	f := c.Request("post", nil).ExpectError(errors.ResourceExhausted)
	if f.RetryAfterMs == nil || *f.RetryAfterMs < 1 {
		t.Errorf("answered %+v; it must say when to try again", f)
	}
	if st := r.Stats(); st.Rejected != 1 || st.Faults != 0 {
		t.Errorf("Stats are %+v", st)
	}
}
