package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

type position struct {
	User string `json:"user"`
	N    int    `json:"n"`
	Fill string `json:"fill"`
}

// Of the positions of ten users on one topic, a subscriber that is behind has the latest of
// each user in the end, and never one older than another it has had; without a broker and
// over one.
func TestLatestByKey(t *testing.T) {
	t.Parallel()
	const users, rounds = 10, 400
	for name, broker := range map[string]pubsub.Broker{"alone": nil, "over a broker": memory.NewBroker()} {
		t.Run(name, func(t *testing.T) {
			conns := make(chan *router.Conn, 1)
			s := serveSocket(t, router.Options{
				Backend: adapters.Backend{Broker: broker}, OnOpen: func(c *router.Conn) error { conns <- c; return nil },
			}, subscribing)
			p := s.dial()
			_ = p.nc.SetReadBuffer(16 << 10)
			p.write(join1("map"))
			p.expect("reply j map")
			fill := strings.Repeat("x", 1<<10)
			for n := range rounds {
				for u := range users {
					user := fmt.Sprint("user ", u)
					if err := s.r.Publish(t.Context(), "map", "moved", position{user, n, fill}, router.PublishOptions{
						Overflow: router.OverflowLatestOnly, Key: user,
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
			conn := <-conns
			if queued := conn.Queued(); queued > 2*users*(len(fill)+100) {
				t.Errorf("%d bytes wait, want the latest of each user and what is being written", queued)
			}
			latest, frames := map[string]int{}, 0
			for done := 0; done < users; frames++ {
				var got position
				kind, payload, _ := strings.Cut(p.next(), " ")
				if err := json.Unmarshal([]byte(payload), &got); err != nil || kind != "moved" {
					t.Fatalf("got %s %.100q", kind, payload)
				}
				if before, seen := latest[got.User]; seen && before >= got.N {
					t.Fatalf("%s: position %d after %d", got.User, got.N, before)
				}
				if latest[got.User] = got.N; got.N == rounds-1 {
					done++
				}
			}
			if frames == users*rounds {
				t.Error("all positions came: the subscriber was never behind")
			}
			if st := s.r.Stats(); st.SlowConsumers != 0 || st.FramesDropped != int64(users*rounds-frames) {
				t.Errorf("%+v after %d frames", st, frames)
			}
			p.bye()
			s.recovered()
		})
	}
}

// A message replaces only one of the same topic, type and key, even if the three read the same when joined.
func TestLatestKeysAreNotConfused(t *testing.T) {
	t.Parallel()
	broker := new(heldMessages)
	r := router.New(router.Options{Backend: adapters.Backend{Broker: broker}})
	for _, m := range [][3]string{
		{"a", "b", "c"}, {"ab", "c", ""}, {"a", "bc", ""}, {"a", "b", ""}, {"a\x00b", "c", "d"}, {"a", "b\x00c", "d"}, {"a", "b", "c\x00d"},
		{"a 1", "b", "c"}, {"a", "1 b", "c"}, {"1 1 a", "b", "c"}, {"1", "1 a", "bc"},
	} {
		if err := r.Publish(t.Context(), m[0], m[1], nil, router.PublishOptions{Overflow: router.OverflowLatestOnly, Key: m[2]}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 256 {
		for range 2 { // the same message twice has the same key
			if err := r.Publish(t.Context(), "a long name", "type", nil, router.PublishOptions{
				Overflow: router.OverflowLatestOnly, Key: strings.Repeat("k", i) + "x" + strings.Repeat("k", 255-i),
			}); err != nil {
				t.Fatal(err)
			}
		}
		n := len(broker.messages)
		if a, b := broker.messages[n-2].Key, broker.messages[n-1].Key; a != b || len(a) > 64 {
			t.Fatalf("the keys of one message are %q and %q", a, b)
		}
		broker.messages = broker.messages[:n-1]
	}
	seen := map[string]bool{}
	for _, m := range broker.messages {
		if m.Key == "" || seen[m.Key] {
			t.Errorf("the key %q of %q has been there before", m.Key, m.Topic)
		}
		seen[m.Key] = true
	}
}

// A key that is too long, or that nothing would look at, is an error.
func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	r := router.New()
	publish := func(o router.Overflow, key string) error {
		return r.Publish(t.Context(), "map", "moved", nil, router.PublishOptions{Overflow: o, Key: key})
	}
	if err := publish(router.OverflowLatestOnly, strings.Repeat("k", 256)); err != nil {
		t.Error(err)
	}
	if err := publish(router.OverflowLatestOnly, strings.Repeat("k", 257)); errors.CodeOf(err) != errors.InvalidArgument {
		t.Errorf("a key of 257 bytes: %v", err)
	}
	for _, o := range []router.Overflow{router.OverflowDisconnect, router.OverflowDropNewest, router.OverflowDropOldest} {
		if err := publish(o, "k"); err == nil || !strings.Contains(err.Error(), "OverflowLatestOnly") {
			t.Errorf("a key with overflow %d: %v", o, err)
		}
	}
}

// heldMessages is a broker that keeps what is published.
type heldMessages struct {
	stage
	messages []pubsub.Message
}

func (h *heldMessages) Publish(_ context.Context, m pubsub.Message) error {
	h.messages = append(h.messages, m)
	return nil
}
