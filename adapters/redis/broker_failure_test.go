package redis_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

// arrives publishes until a message arrives, however the publishing fares.
func arrives(t *testing.T, b pubsub.Broker, topic string, in *inbox) {
	t.Helper()
	before := in.len()
	eventually(t, "messages arrive", func() bool {
		_ = b.Publish(ctx, pubsub.Message{Topic: topic, Frame: []byte("again")})
		return in.len() > before
	})
}

func healthy(t *testing.T, b redis.Broker) {
	t.Helper()
	eventually(t, "no topic is missing", func() bool { return b.Stats().Missing == 0 })
}

func TestSubscriptionsComeBackAfterARestart(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := redistest.Start(t)
	logger, logged := newLog()
	outages := make(chan errors.Outage, 100)
	b := newBroker(t, s, redis.BrokerOptions{Logger: logger, OnOutage: func(o errors.Outage) { outages <- o }})
	inboxes := []*inbox{subscribe(t, b, "a"), subscribe(t, b, "b")}
	for range 2 {
		lost := b.Stats().Lost
		s.Kill()
		eventually(t, "the loss is counted", func() bool { return b.Stats().Lost == lost+1 })
		if n := b.Stats().Missing; n != 2 {
			t.Errorf("%d topics are missing while Redis is away", n)
		}
		failed := b.Stats().Failed
		if err := b.Publish(ctx, pubsub.Message{Topic: "a"}); err == nil {
			t.Error("publishing while Redis is away has no error")
		}
		if n := b.Stats().Failed; n != failed+1 {
			t.Errorf("Failed went from %d to %d", failed, n)
		}
		s.Run()
		healthy(t, b)
		// Without publishing to find out: the subscriptions are there.
		for i, topic := range []string{"a", "b"} {
			before := inboxes[i].count("back")
			eventually(t, "publishing works", func() bool {
				return b.Publish(ctx, pubsub.Message{Topic: topic, Frame: []byte("back")}) == nil
			})
			eventually(t, "the message is there", func() bool { return inboxes[i].count("back") == before+1 })
		}
	}
	eventually(t, "the return is logged", func() bool { return strings.Count(logged(), "subscribed to again") == 2 })
	if text := logged(); strings.Count(text, "are lost") != 2 || strings.Count(text, "publishing fails") < 1 {
		t.Errorf("one line for each loss and one for each return:\n%s", text)
	}
	var changes []bool
	failedToPublish := false
	for len(changes) < 4 || !failedToPublish {
		o := <-outages
		switch {
		case o.Err == nil || o.Name != "wskit" || o.Since.Before(began):
			t.Errorf("%+v", o)
		case o.Component == "subscription":
			changes = append(changes, o.Over)
		case o.Component == "publish":
			failedToPublish = true
		}
	}
	if !slices.Equal(changes, []bool{false, true, false, true}) {
		t.Errorf("the subscriptions were reported to begin and end to fail: %v", changes)
	}
}

// A stalled server closes no connection.
func TestStalledServerIsDetected(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{HealthTimeout: 500 * time.Millisecond, Timeout: 100 * time.Millisecond})
	in := subscribeUntilItWorks(t, b, "room")
	lost := b.Stats().Lost
	s.Stall()
	if err := b.Publish(ctx, pubsub.Message{Topic: "room"}); err == nil {
		t.Error("publishing to a stalled server has no error")
	}
	eventually(t, "the loss is noticed", func() bool { return b.Stats().Lost > lost && b.Stats().Missing == 1 })
	if _, err := b.Subscribe(ctx, "other", func(pubsub.Message) {}); err == nil {
		t.Error("subscribing at a stalled server has no error")
	}
	s.Resume()
	healthy(t, b)
	arrives(t, b, "room", in)
	eventually(t, "what could not be subscribed to is forgotten", func() bool { return b.Stats().Topics == 1 })
}

// The connection is alive and the server answers on it, but it is no longer the one
// that is published to.
func TestSubscriptionAtAnUnusedServerIsDetected(t *testing.T) {
	t.Parallel()
	old, next := redistest.Start(t), redistest.Start(t)
	var master atomic.Pointer[redistest.Server]
	master.Store(old)
	b := brokerOn(t, &goredis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, master.Load().Addr)
	}}, redis.BrokerOptions{HealthTimeout: 500 * time.Millisecond})
	in := subscribe(t, b, "room")
	arrives(t, b, "room", in)

	lost := b.Stats().Lost
	master.Store(next)
	old.Do("CLIENT", "KILL", "TYPE", "normal") // all but subscribers
	eventually(t, "the subscription has moved", func() bool {
		old.Do("PUBLISH", "wskit:topic:{room}", "of a client of the old master")
		return len(topics(next)) == 1 && len(topics(old)) == 0
	})
	healthy(t, b)
	arrives(t, b, "room", in)
	if n := b.Stats().Lost; n == lost {
		t.Error("the loss is not counted")
	}
}

func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// As long as messages come back nothing is given up, also if nothing is published.
func TestSilenceIsNoFailure(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{HealthTimeout: 4 * time.Second})
	subscribe(t, b, "room")
	pings, probes := s.Calls("ping"), s.Calls("publish")
	eventually(t, "it is looked at several times", func() bool { return s.Calls("ping") > pings+2 && s.Calls("publish") > probes+2 })
	if stats := b.Stats(); stats.Lost != 0 || stats.Missing != 0 {
		t.Errorf("%+v", stats)
	}
}

// If nothing can be published the subscription is still worth keeping.
func TestSubscriptionOutlivesWhatCannotBePublished(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "reader", "on", "nopass", "allchannels", "allkeys", "+@all", "-publish")
	b := brokerOn(t, &goredis.Options{Addr: s.Addr, Username: "reader", Password: "x"}, redis.BrokerOptions{HealthTimeout: 2 * time.Second})
	in := subscribe(t, b, "room")
	pings := s.Calls("ping")
	eventually(t, "more than HealthTimeout passes", func() bool { return s.Calls("ping") > pings+8 })
	if n := b.Stats().Lost; n != 0 {
		t.Errorf("lost %d times", n)
	}
	publish(t, newBroker(t, s, redis.BrokerOptions{}), "room", "hello")
	eventually(t, "it arrives", func() bool { return in.count("hello") == 1 })
	if err := b.Publish(ctx, pubsub.Message{Topic: "room"}); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Publish: %v", err)
	}
}

func TestRefusedSubscriptionHarmsNoOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "app", "on", "nopass", "+@all", "allkeys", "resetchannels", "&wskit:topic:{a*", "&wskit:probe:*")
	b := brokerOn(t, &goredis.Options{Addr: s.Addr, Username: "app", Password: "x"}, redis.BrokerOptions{Timeout: patience})
	in := subscribe(t, b, "a")
	// At once, not after the timeout.
	if _, err := b.Subscribe(ctx, "b", func(pubsub.Message) {}); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Subscribe: %v", err)
	}
	eventually(t, "it is forgotten", func() bool { return b.Stats().Topics == 1 })
	publish(t, b, "a", "hello")
	eventually(t, "others go on", func() bool { return in.count("hello") == 1 })
	if stats := b.Stats(); stats.Lost != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestSubscribeFailsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{Timeout: 300 * time.Millisecond})
	s.Kill()
	in := new(inbox)
	if _, err := b.Subscribe(ctx, "room", in.deliver); err == nil || !strings.HasPrefix(err.Error(), "redis: subscribing: ") {
		t.Errorf("Subscribe: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Subscribe(over, "room", in.deliver); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("Subscribe with a context that is over: %v", err)
	}
	if n := b.Stats().Topics; n != 0 {
		t.Errorf("%d topics are left", n)
	}
	s.Run()
	again := subscribeUntilItWorks(t, b, "room")
	arrives(t, b, "room", again)
	if in.len() != 0 {
		t.Error("a subscription that failed has got messages")
	}
}

func subscribeUntilItWorks(t *testing.T, b pubsub.Broker, topic string) *inbox {
	t.Helper()
	in := new(inbox)
	eventually(t, "subscribing works", func() bool {
		_, err := b.Subscribe(ctx, topic, in.deliver)
		return err == nil
	})
	return in
}

// A message is not sent again when its answer is missing: it may have arrived.
func TestPublishIsNotReplayed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	in := subscribe(t, newBroker(t, s, redis.BrokerOptions{}), "room")
	proxy := withoutCommand(t, s.Addr, "publish")
	b := brokerOn(t, &goredis.Options{Addr: proxy, MaxRetries: 3}, redis.BrokerOptions{})
	if err := b.Publish(ctx, pubsub.Message{Topic: "room", Frame: []byte("once")}); err == nil {
		t.Error("a publish without an answer has no error")
	}
	eventually(t, "it has arrived", func() bool { return in.count("once") >= 1 })
	publish(t, newBroker(t, s, redis.BrokerOptions{}), "room", "after")
	eventually(t, "so has what was published after it", func() bool { return in.count("after") == 1 })
	if n, calls := in.count("once"), s.Calls("publish"); n != 1 {
		t.Errorf("it came %d times, Redis has had %d PUBLISH", n, calls)
	}
}

// withoutCommand is a proxy to a server that passes everything on, but ends a connection in
// place of the answer to a command.
func withoutCommand(t *testing.T, addr, command string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go proxyUntil(client, addr, command)
		}
	}()
	return l.Addr().String()
}

func proxyUntil(client net.Conn, addr, command string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool
	go func() {
		defer server.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			if strings.Contains(strings.ToLower(string(buf[:n])), "\r\n"+command+"\r\n") {
				cut.Store(true)
			}
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || cut.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err == io.EOF {
			return
		}
	}
}
