package collect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/collect"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type position struct {
	Player string `json:"player"`
	X      int    `json:"x"`
}

func player(p position) string { return p.Player }

// room is a router with an event for positions, and a client that is a member of the topic "room".
func room(t *testing.T, ro router.Options, o collect.Options, hooks ...router.Hooks) (*collect.Collector[position], *routertest.Client) {
	t.Helper()
	ro.OnOpen = func(c *router.Conn) error { return c.Subscribe(c.Context(), "room") }
	r := router.New(ro)
	for _, h := range hooks {
		r.AddHooks(h)
	}
	b := collect.New(router.Declare[[]position](r, "moved"), player, o)
	return b, routertest.New(t, r).Dial()
}

func set(t *testing.T, b *collect.Collector[position], player string, x int) {
	t.Helper()
	if err := b.Publish("room", position{player, x}); err != nil {
		t.Fatal(err)
	}
}

// What comes within an interval is one message, with the latest value of each key. It comes at the end of the interval.
func TestOneMessageInAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, member := room(t, router.Options{}, collect.Options{})
		for interval := range 3 {
			began := time.Now()
			for x := range 3 {
				for _, who := range []string{"ann", "bob", "cid"} {
					set(t, b, who, 10*interval+x)
				}
			}
			got := routertest.ExpectEvent[[]position](member, "moved")
			last := 10*interval + 2
			if want := fmt.Sprint([]position{{"ann", last}, {"bob", last}, {"cid", last}}); fmt.Sprint(got) != want {
				t.Errorf("received %v, want %s", got, want)
			}
			if after := time.Since(began); after != 50*time.Millisecond {
				t.Errorf("received after %v", after)
			}
		}
		time.Sleep(time.Second)
		if more := member.Frames(); len(more) > 0 {
			t.Errorf("more messages than intervals: %v", more)
		}
		if n := b.Topics(); n > 0 {
			t.Errorf("%d topics have a timer while nothing is published", n)
		}
	})
}

// Whenever values come, a member has the last one of every key in the end, never goes back, and gets no more messages than
// there are intervals.
func TestMembersEndWithTheLatest(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			b, member := room(t, router.Options{}, collect.Options{Every: 20 * time.Millisecond})
			began := time.Now()
			var last [5]int
			for x := 1; x <= 200; x++ {
				i := rng.IntN(len(last))
				last[i] = x
				set(t, b, fmt.Sprint(i), x)
				time.Sleep(time.Duration(rng.Int64N(int64(rng.Int64N(60)+1) * int64(time.Millisecond))))
			}
			most := int(time.Since(began)/(20*time.Millisecond)) + 1
			set(t, b, "end", 1)
			var has [5]int
			for messages, ended := 0, false; !ended; messages++ {
				if messages > most {
					t.Fatalf("seed %d: %d messages in %d intervals", seed, messages+1, most)
				}
				for _, p := range routertest.ExpectEvent[[]position](member, "moved") {
					if ended = p.Player == "end"; ended {
						break
					}
					var i int
					fmt.Sscan(p.Player, &i)
					if p.X <= has[i] {
						t.Fatalf("seed %d: %d after %d", seed, p.X, has[i])
					}
					has[i] = p.X
				}
			}
			if has != last {
				t.Errorf("seed %d: the member has %v, want %v", seed, has, last)
			}
		})
	}
}

// Values of many goroutines and topics are collected apart.
func TestManyTopicsAtOnce(t *testing.T) {
	const topics, values = 8, 500
	r := router.New(router.Options{OnOpen: func(c *router.Conn) error {
		for i := range topics {
			if err := c.Subscribe(c.Context(), fmt.Sprint("room", i)); err != nil {
				return err
			}
		}
		return nil
	}})
	b := collect.New(router.Declare[[]position](r, "moved"), player, collect.Options{Every: time.Millisecond})
	member := routertest.New(t, r).Dial()
	var publishers sync.WaitGroup
	for i := range topics {
		publishers.Go(func() {
			for x := 1; x <= values; x++ {
				if err := b.Publish(fmt.Sprint("room", i), position{fmt.Sprint(i), x}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	has := map[string]int{}
	for done := 0; done < topics; {
		for _, p := range routertest.ExpectEvent[[]position](member, "moved") {
			if p.X <= has[p.Player] {
				t.Fatalf("player %s: %d after %d", p.Player, p.X, has[p.Player])
			}
			if has[p.Player] = p.X; p.X == values {
				done++
			}
		}
	}
	publishers.Wait()
}

func TestMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, member := room(t, router.Options{}, collect.Options{MaxKeys: 2})
		set(t, b, "ann", 1)
		set(t, b, "bob", 1)
		if err := b.Publish("room", position{"cid", 1}); errors.CodeOf(err) != errors.ResourceExhausted {
			t.Errorf("a third key of two: %v", err)
		}
		set(t, b, "ann", 2)
		if got := routertest.ExpectEvent[[]position](member, "moved"); fmt.Sprint(got) != "[{ann 2} {bob 1}]" {
			t.Errorf("received %v", got)
		}
		set(t, b, "cid", 2) // the next interval
	})
}

// A message that cannot be published is reported, and the next one is published.
func TestOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed []error
		b, member := room(t, router.Options{Limits: router.Limits{MaxQueued: 4096}}, collect.Options{
			OnError: func(topic string, err error) { failed = append(failed, fmt.Errorf("%s: %w", topic, err)) },
		})
		set(t, b, strings.Repeat("x", 5000), 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(failed) != 1 || !strings.Contains(failed[0].Error(), "room: ") || !strings.Contains(failed[0].Error(), "MaxQueued") {
			t.Errorf("reported: %v", failed)
		}
		set(t, b, "ann", 1)
		routertest.ExpectEvent[[]position](member, "moved")
	})
}

// While publishing takes longer than an interval, no second message of the topic is published beside.
func TestSlowPublishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int32
		slow := router.Hooks{BeforePublish: func(context.Context, string) error {
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(time.Second)
			at.Add(-1)
			return nil
		}}
		b, member := room(t, router.Options{}, collect.Options{Every: time.Millisecond}, slow)
		for x := range 500 {
			set(t, b, "ann", x)
			time.Sleep(10 * time.Millisecond)
		}
		for routertest.ExpectEvent[[]position](member, "moved")[0].X < 499 {
		}
		if most.Load() != 1 {
			t.Errorf("%d messages were published at once", most.Load())
		}
	})
}

func TestNewPanics(t *testing.T) {
	r := router.New()
	event := router.Declare[[]position](r, "moved")
	for says, o := range map[string]collect.Options{
		"Options.Every is -1ns":      {Every: -1},
		"Options.Every is 999µs":     {Every: 999 * time.Microsecond},
		"Options.MaxKeys is -1":      {MaxKeys: -1},
		"has a Key, Except or ID":    {Publish: router.PublishOptions{Except: "x"}},
		"has a Key, Except or ID, w": {Publish: router.PublishOptions{ID: "x"}},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, says) {
					t.Errorf("%+v: %s, want %q", o, got, says)
				}
			}()
			collect.New(event, player, o)
		}()
	}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "key is nil") {
			t.Error(got)
		}
	}()
	collect.New(event, nil)
}
