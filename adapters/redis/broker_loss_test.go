package redis_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

// flow publishes numbered messages to a topic, about 400 a second, and keeps what a subscription
// gets, in order.
type flow struct {
	t     *testing.T
	topic string
	over  chan struct{}
	ended sync.WaitGroup
	sent  atomic.Int64 // how many were published

	mu    sync.Mutex
	taken map[int]bool // by Redis, for all it says
	got   []int        // lossReport among them
}

const lossReport = -1

func startFlow(t *testing.T, publisher, subscriber pubsub.Broker, topic string) *flow {
	t.Helper()
	f := &flow{t: t, topic: topic, over: make(chan struct{}), taken: map[int]bool{}}
	eventually(t, "subscribing works", func() bool {
		_, err := subscriber.Subscribe(ctx, topic, f.deliver)
		return err == nil
	})
	f.ended.Go(func() {
		for n := 0; ; n++ {
			err := publisher.Publish(ctx, pubsub.Message{Topic: topic, Frame: []byte(strconv.Itoa(n))})
			f.mu.Lock()
			f.taken[n] = err == nil
			f.mu.Unlock()
			f.sent.Add(1)
			select {
			case <-f.over:
				return
			default:
				pause(2500 * time.Microsecond)
			}
		}
	})
	f.arrives()
	return f
}

func (f *flow) deliver(m pubsub.Message) {
	n := lossReport
	if m.Lost == (m.Frame != nil) || m.Topic != f.topic {
		f.t.Errorf("delivered: %+v", m)
	}
	if !m.Lost {
		n, _ = strconv.Atoi(string(m.Frame))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, n)
}

// arrives waits until messages arrive that are published from now on.
func (f *flow) arrives() {
	f.t.Helper()
	from := int(f.sent.Load()) + 1
	eventually(f.t, "messages arrive", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.got) > 0 && f.got[len(f.got)-1] >= from
	})
}

// lost is how many messages were published and are missing between those that have arrived, and
// reports how often that was reported. It fails the test if a message is missing
// without a report in its place.
func (f *flow) lost() (lost, reports int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, reported := 0, false
	for _, n := range f.got {
		if n == lossReport {
			reports++
			reported = true
			continue
		}
		if n < next {
			if f.taken[n] {
				f.t.Errorf("message %d came after message %d", n, next-1)
			}
			continue // it failed with a timeout: it may come late
		}
		missing := 0
		for ; next < n; next++ {
			if f.taken[next] {
				missing++
			}
		}
		if missing > 0 && !reported {
			f.t.Errorf("%d messages are missing before message %d, and no report", missing, n)
		}
		lost += missing
		next, reported = n+1, false
	}
	return lost, reports
}

// end ends the publishing, when messages arrive again.
func (f *flow) end() (lost, reports int) {
	f.t.Helper()
	f.arrives()
	close(f.over)
	f.ended.Wait()
	lost, reports = f.lost()
	f.t.Logf("%d messages published, %d of them lost, %d reports", f.sent.Load(), lost, reports)
	return lost, reports
}

// loses repeats a fault until messages are lost, and expects reports of it.
func (f *flow) loses(fault func()) {
	f.t.Helper()
	for {
		fault()
		f.arrives()
		if lost, _ := f.lost(); lost > 0 || f.t.Failed() {
			break
		}
	}
	f.end()
}

// Where nothing fails nothing is reported, whatever comes and goes beside.
func TestNoLossIsReportedWhereThereIsNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{HealthTimeout: 4 * time.Second})
	f := startFlow(t, newBroker(t, s, redis.BrokerOptions{}), b, "room")
	for i := range 50 {
		sub := subscribeTo(t, b, "room", func(m pubsub.Message) {
			if m.Lost {
				t.Error("a second subscription of the topic got a report")
			}
		})
		other := new(inbox)
		otherSub := subscribeTo(t, b, fmt.Sprint("other", i%3), other.deliver)
		publish(t, b, fmt.Sprint("other", i%3), "hello")
		eventually(t, "it arrives", func() bool { return other.count("hello") == 1 })
		_, _ = sub.Close(), otherSub.Close()
		if other.lost() != 0 {
			t.Error("a new subscription got a report")
		}
	}
	eventually(t, "the connection has been looked at", func() bool { return s.Calls("ping") > 1 })
	if lost, reports := f.end(); lost != 0 || reports != 0 {
		t.Errorf("%d lost, %d reports", lost, reports)
	}
}

func TestLossIsReportedWhenSubscriptionsAreKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := startFlow(t, newBroker(t, s, redis.BrokerOptions{}), newBroker(t, s, redis.BrokerOptions{}), "room")
	f.loses(func() { s.Do("CLIENT", "KILL", "TYPE", "pubsub") })
}

func TestLossIsReportedWhenRedisRestarts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := startFlow(t, newBroker(t, s, redis.BrokerOptions{}), newBroker(t, s, redis.BrokerOptions{}), "room")
	for range 3 {
		_, before := f.lost()
		s.Kill()
		s.Run()
		f.arrives()
		if _, reports := f.lost(); reports != before+1 {
			t.Errorf("%d reports of a restart", reports-before)
		}
	}
	f.end()
}

func TestLossIsReportedWhenTheServerStalls(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	short := redis.BrokerOptions{HealthTimeout: 500 * time.Millisecond, Timeout: 200 * time.Millisecond}
	b := newBroker(t, s, short)
	f := startFlow(t, newBroker(t, s, short), b, "room")
	for range 2 {
		_, before := f.lost()
		s.Stall()
		eventually(t, "the loss is noticed", func() bool { return b.Stats().Missing == 1 })
		s.Resume()
		f.arrives()
		if _, reports := f.lost(); reports == before {
			t.Error("no report")
		}
	}
	f.end()
}

// Redis closes the connection of a subscriber for which too much waits, with what waits.
func TestLossIsReportedWhenTheOutputBufferOverruns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 256kb 0 0")
	publisher := newBroker(t, s, redis.BrokerOptions{})
	f := startFlow(t, publisher, newBroker(t, s, redis.BrokerOptions{}), "room")
	f.loses(func() {
		publish(t, publisher, "room", strings.Repeat("x", 1<<20))
	})
}

// The connection is open and its server answers on it, but messages are published at another
// server: that is noticed within HealthTimeout.
func TestLossIsReportedAfterASubscriptionAtAnUnusedServer(t *testing.T) {
	t.Parallel()
	old, next := redistest.Start(t), redistest.Start(t)
	var master atomic.Pointer[redistest.Server]
	master.Store(old)
	b := brokerOn(t, &goredis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		m := master.Load()
		conn, err := dial(ctx, network, m.Addr)
		if err == nil && master.Load() != m { // it would outlive the fault, and messages would go to both servers
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		return conn, err
	}}, redis.BrokerOptions{HealthTimeout: 500 * time.Millisecond})
	f := startFlow(t, b, b, "room")
	f.loses(func() {
		if master.CompareAndSwap(old, next) {
			old.Do("CLIENT", "KILL", "TYPE", "normal") // all but subscribers
			return
		}
		master.Store(old)
		next.Do("CLIENT", "KILL", "TYPE", "normal")
	})
}

func TestLossIsReportedWhenASlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	f := startFlow(t, newClusterBroker(t, c, redis.BrokerOptions{}), newClusterBroker(t, c, redis.BrokerOptions{}), "room")
	slot := slotOf(c, "wskit:topic:{room}")
	f.loses(func() { c.Move(slot, (c.Owner(slot)+1)%3, func() {}) })
}

func TestLossIsReportedAfterAPlannedFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	newBroker := func() redis.Broker {
		return brokerOfSentinel(t, s, redis.BrokerOptions{})
	}
	b := newBroker()
	f := startFlow(t, newBroker(), b, "room")
	sentinel := goredis.NewSentinelClient(&goredis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = sentinel.Close() })
	eventually(t, "Sentinel begins the failover", func() bool { return sentinel.Failover(ctx, s.Name).Err() == nil })
	eventually(t, "the subscription is at the new master", func() bool { return len(topics(s.Replica)) == 1 })
	healthy(t, b)
	if _, reports := f.end(); reports == 0 {
		t.Error("no report")
	}
}

// A subscription that is slow gets a report in the place of what did not fit its buffer: one for each run of
// messages that were dropped, and always.
func TestLossIsReportedWhenTheBufferIsFull(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const fit = 10
	b := newBroker(t, s, redis.BrokerOptions{MaxBuffered: fit * (128 + 4)})
	entered, goOn := make(chan string), make(chan struct{})
	subscribeTo(t, b, "room", func(m pubsub.Message) {
		text := string(m.Frame)
		if m.Lost {
			text = "lost"
		}
		entered <- text
		<-goOn
	})
	quick := subscribe(t, b, "room")
	next := 0
	send := func(n int) {
		for range n {
			frame := fmt.Sprintf("%04d", next)
			next++
			publish(t, b, "room", frame)
			eventually(t, "the quick subscriber has it", func() bool { return quick.count(frame) == 1 })
		}
	}
	var got []string // the last one is being delivered
	deliver := func(last string) {
		for len(got) == 0 || got[len(got)-1] != last {
			if len(got) > 0 {
				goOn <- struct{}{}
			}
			got = append(got, <-entered)
		}
	}
	send(1)
	deliver("0000")
	send(14) // 1 to 9 wait, 10 to 14 are dropped
	deliver("0005")
	send(7) // 15 to 19 fit, 20 and 21 are dropped
	deliver("0019")
	send(1)
	deliver("0022")
	goOn <- struct{}{}
	want := "0000 0001 0002 0003 0004 0005 0006 0007 0008 0009 lost 0015 0016 0017 0018 0019 lost 0022 "
	if text := strings.Join(got, " ") + " "; text != want {
		t.Errorf("delivered %s\nwant      %s", text, want)
	}
	if n := b.Stats().Dropped; n != 7 || quick.lost() != 0 {
		t.Errorf("%d dropped; %d reports to the quick subscription", n, quick.lost())
	}
}
