package router_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Whatever order connections come and go in, what LocalSubscribers says in the last call of OnTopic for a topic is true,
// and stays true until the next one. With and without a broker.
func TestOnTopicSaysTheLastChange(t *testing.T) {
	t.Parallel()
	for name, backend := range map[string]adapters.Backend{"memory": {}, "broker": {Broker: memory.NewBroker()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { onTopicSaysTheLastChange(t, backend) })
		})
	}
}

func onTopicSaysTheLastChange(t *testing.T, backend adapters.Backend) {
	const connections, topics, rounds, steps = 4, 3, 50, 20
	var conns []*router.Conn
	r := router.New(router.Options{Backend: backend, OnOpen: func(c *router.Conn) error {
		conns = append(conns, c)
		return nil
	}})
	r.History("t1") // a topic of each kind
	var mu sync.Mutex
	said, calls := make(map[string]bool), 0
	r.AddHooks(router.Hooks{OnTopic: func(topic string) {
		mu.Lock()
		defer mu.Unlock()
		said[topic] = r.LocalSubscribers(topic) > 0
		calls++
	}})
	s := routertest.New(t, r)
	for range connections {
		s.Dial()
	}
	check := func(when string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		for i := range topics {
			topic := fmt.Sprint("t", i)
			if got, want := said[topic], r.LocalSubscribers(topic) > 0; got != want {
				t.Fatalf("%s: the last call for %s says %t, and it is %t", when, topic, got, want)
			}
		}
	}
	for round := range rounds {
		var done sync.WaitGroup
		for _, c := range conns {
			done.Go(func() {
				for range steps {
					topic := fmt.Sprint("t", rand.IntN(topics))
					if rand.IntN(2) == 0 {
						if err := c.Subscribe(t.Context(), topic); err != nil {
							t.Errorf("subscribing: %v", err)
						}
					} else {
						c.Unsubscribe(topic)
					}
				}
			})
		}
		done.Wait()
		check(fmt.Sprint("round ", round))
	}
	if calls < rounds {
		t.Errorf("%d calls in %d rounds", calls, rounds)
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	check("after the shutdown")
}
