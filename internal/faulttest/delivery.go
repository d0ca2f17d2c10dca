package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/runcheck"
	"github.com/wskit/wskit/pubsub"
)

// Delivery is servers of topics with history on one Redis, networks between them that can fail, and
// writers and readers, which are recorded.
type Delivery struct {
	DeliveryFigures
	Recorder *deliverytest.Recorder

	t         testing.TB
	rand      *rand.Rand
	redis     deliveryRedis
	servers   []*Server
	toServers []*redistest.Proxy // before each server
	targets   []string
	recording *os.File
	readers   []*reader
	nemesis   writer
	calm      atomic.Bool  // nothing fails any more, and readers stay
	stalled   atomic.Bool  // readers read nothing
	losses    atomic.Int64 // see runcheck.User
	stop      func()       // the writers and users, and waits
	end       func()       // the readers, and waits

	mu         sync.Mutex
	violations []string // of PROTOCOL.md, as a reader saw them
}

// DeliveryFigures are what was counted in a run. They are complete when it has finished.
type DeliveryFigures struct {
	Connections int            // of readers
	Repeated    int            // requests of writers that were sent again
	Replayed    int            // messages of successful resumes
	Outcomes    map[string]int // of resumes, of one topic each
	Faults      map[string]int // by name
	Overruns    int            // subscriptions that Redis closed because their buffers were full
}

const (
	deliveryServers = 3
	deliveryReaders = 9
	deliveryWriters = 4
	deliveryUsers   = 5
	// deliveryProcessTimeout is longer than a server is stopped, so that it does not lose its runs each time.
	deliveryProcessTimeout = 5 * time.Second
)

// StartDelivery starts a system on a kind of Redis, which reports on runs.
func StartDelivery(t testing.TB, kind DeliveryRedis, seed uint64, runs *runcheck.Report) *Delivery {
	t.Helper()
	random := func(i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) }
	d := &Delivery{t: t, rand: random(0)}
	d.Outcomes, d.Faults = make(map[string]int), make(map[string]int)
	d.redis.start(t, kind)
	for range deliveryServers {
		server := StartServer(t, Config{
			Redis: d.redis.way(t), Delivery: true, ProcessTimeout: deliveryProcessTimeout, Timeout: time.Second,
		})
		toServer := redistest.StartProxy(t, server.Config.Addr)
		d.servers = append(d.servers, server)
		d.toServers = append(d.toServers, toServer)
		d.targets = append(d.targets, server.Config.Addr, toServer.Addr)
	}
	var err error
	if d.recording, err = os.CreateTemp("", "wskit-delivery-*.jsonl"); err != nil {
		t.Fatal(err)
	}
	d.Recorder = deliverytest.NewRecorder(d.recording)
	d.nemesis = writer{name: "nemesis", d: d, rand: random(1)}

	begin := func(each func(ctx context.Context, wait *sync.WaitGroup)) (end func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		each(ctx, &wait)
		end = sync.OnceFunc(func() { cancel(); wait.Wait() })
		t.Cleanup(end)
		return end
	}
	d.end = begin(func(ctx context.Context, wait *sync.WaitGroup) {
		for i := range deliveryReaders {
			r := &reader{name: fmt.Sprint("reader", i), d: d, rand: random(100 + i), topics: make(map[string]*readerTopic)}
			for _, name := range deliveryTopics {
				r.topics[name] = &readerTopic{name: name}
			}
			d.readers = append(d.readers, r)
			wait.Go(func() { r.read(ctx) })
		}
	})
	d.stop = begin(func(ctx context.Context, wait *sync.WaitGroup) {
		for i := range deliveryWriters {
			w := &writer{name: fmt.Sprint("writer", i), d: d, rand: random(200 + i)}
			wait.Go(func() { w.write(ctx) })
		}
		for i := range deliveryUsers {
			u := &runcheck.User{
				Dial: runcheck.Dial(fmt.Sprint("user", i, " of ", kind), d.targets), Losses: d.losses.Load, Rand: random(300 + i),
				Report: runs,
			}
			wait.Go(func() { u.Rounds(ctx) })
		}
	})
	return d
}

// target returns a server's address, or that of the proxy before it.
func (d *Delivery) target(rand *rand.Rand) string { return d.targets[rand.IntN(len(d.targets))] }

func (d *Delivery) count(figure *int, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*figure += n
}

func (d *Delivery) outcome(of string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Outcomes[of]++
}

func (d *Delivery) violated(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.violations = append(d.violations, what)
}

// Inflict injects a fault, and repairs what is broken.
func (d *Delivery) Inflict(n DeliveryNemesis) {
	d.Faults[n.Name]++
	n.Do(d)
}

// Finish ends the writers, waits until all readers have all messages, shuts down the servers and
// checks the recording.
func (d *Delivery) Finish() deliverytest.Report {
	d.t.Helper()
	d.stop()
	d.calm.Store(true)
	// The last messages have no successors that would show that they are missing.
	for _, topic := range deliveryTopics {
		d.redis.do("CLIENT", "KILL", "TYPE", "pubsub")
		d.nemesis.append(topic, 1, 10)
	}
	d.nemesis.hangUp()
	d.settle()
	d.end()
	for _, s := range d.servers {
		d.inspect(s)
		if err := s.Terminate(); err != nil {
			d.t.Errorf("a server does not shut down: %v", err)
		}
	}
	report := d.check()
	report.Violations = append(report.Violations, d.violations...)
	if len(report.Violations) > 0 {
		d.t.Logf("the recording is %s", d.recording.Name())
	} else {
		_ = os.Remove(d.recording.Name())
	}
	return report
}

// settle waits until every reader is where the logs end.
func (d *Delivery) settle() {
	d.t.Helper()
	client := d.redis.client()
	defer client.Close()
	broker := redis.NewBroker(client)
	defer broker.Close()
	var heads []pubsub.Position
	poll.Until(d.t, "Redis tells where the logs end", func() (ok bool) {
		var err error
		heads, err = broker.Heads(context.Background(), deliveryTopics)
		return err == nil
	})
	settled := func(r *reader) bool {
		for i, topic := range deliveryTopics {
			if r.at(topic) != heads[i].String() {
				return false
			}
		}
		return true
	}
	left := slices.Clone(d.readers)
	poll.Within(hangGuard, func() bool { // a reader that was there may reconnect
		left = slices.DeleteFunc(left, settled)
		return len(left) == 0
	})
	for _, r := range d.readers {
		for i, topic := range deliveryTopics {
			if slices.Contains(left, r) && r.at(topic) != heads[i].String() {
				d.violated(fmt.Sprintf("%s is at %q of %s after %v without faults, and the log ends at %s; %s", r.name, r.at(topic), topic, hangGuard, heads[i], r.describe(topic)))
				continue
			}
			d.Recorder.Record(deliverytest.Event{Kind: deliverytest.Settled, Client: r.name, Topic: topic})
		}
	}
}

func (d *Delivery) check() deliverytest.Report {
	d.t.Helper()
	if err := d.Recorder.Err(); err != nil {
		d.t.Fatal(err)
	}
	defer d.recording.Close()
	report, err := deliverytest.CheckFile(d.recording.Name())
	if err != nil {
		d.t.Fatal(err)
	}
	return report
}

// inspect reports what a server has printed that none should.
func (d *Delivery) inspect(s *Server) {
	log := s.Log()
	for _, bad := range []string{"DATA RACE", "panic"} {
		if strings.Contains(log, bad) {
			d.t.Errorf("a server printed:\n%s", log)
		}
	}
}

// add adds the figures of another run.
func (f *DeliveryFigures) add(o DeliveryFigures) {
	f.Connections += o.Connections
	f.Repeated += o.Repeated
	f.Replayed += o.Replayed
	f.Overruns += o.Overruns
	addAll := func(into *map[string]int, from map[string]int) {
		if *into == nil {
			*into = make(map[string]int)
		}
		for k, n := range from {
			(*into)[k] += n
		}
	}
	addAll(&f.Outcomes, o.Outcomes)
	addAll(&f.Faults, o.Faults)
}
