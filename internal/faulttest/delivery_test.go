package faulttest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/internal/redistest"
)

var (
	deliveryFaults    = flag.Int("delivery.faults", 12, "how many faults TestDelivery inflicts")
	deliveryReport    = flag.String("delivery.report", "", "`file` to which TestDelivery writes what it did and saw")
	deliveryRecording = flag.String("delivery.recording", "", "`file` to which TestDelivery writes what clients observed")
)

// Clients of topics with history resume on any server while servers, Redis and the ways between them fail:
// each gets every message once and in order, or a reset with a reason.
func TestDelivery(t *testing.T) {
	const servers, topics, followers, publishers = 3, 2, 12, 4
	began := time.Now()
	store := redistest.Start(t)
	client := store.Client()
	toRedis := redistest.StartProxy(t, store.Addr)
	dir := t.TempDir()
	var all []*Server
	var targets []Target
	for i := range servers {
		name := fmt.Sprint("server", i)
		s := StartServer(t, Config{
			Redis: "redis://" + toRedis.Addr, Journal: filepath.Join(dir, name),
			Gate: GateConfig{Instance: name, MaxPerUser: 1000, Lease: 30 * time.Second},
		})
		all = append(all, s)
		targets = append(targets, Target{name, s.Config.Addr})
	}
	toServer := redistest.StartProxy(t, all[0].Config.Addr)
	targets = append(targets, Target{"server0", toServer.Addr})

	name := *deliveryRecording
	if name == "" {
		name = filepath.Join(dir, "recording.jsonl")
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := deliverytest.NewRecorder(file)
	topic := func(i int) string { return fmt.Sprint("feed:", i%topics) }

	following, end := context.WithCancel(context.Background())
	defer end()
	var quiet atomic.Bool
	var reading, posting sync.WaitGroup
	var feeds []*Feed
	for i := range followers {
		f := &Feed{Client: fmt.Sprint("follower", i), Topic: topic(i), Recorder: r, Targets: targets}
		feeds = append(feeds, f)
		reading.Go(func() { f.Follow(following, func() bool { return !quiet.Load() && rand.IntN(4) > 0 }) })
	}
	publishing, stop := context.WithCancel(context.Background())
	defer stop()
	known, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	for p := range publishers {
		posting.Go(func() {
			var ws *websocket.Conn
			for i := 0; publishing.Err() == nil; i++ {
				ws = PostUntilKnown(known, r, ws, fmt.Sprint("publisher", p), targets, Post{topic(rand.IntN(topics)), fmt.Sprintf("%d-%d", p, i)})
				time.Sleep(rand.N(10 * time.Millisecond))
			}
			if ws != nil {
				_ = ws.CloseNow()
			}
		})
	}

	mayLose := func(since int64) { r.Record(deliverytest.Event{Kind: deliverytest.MayLose, Begun: since}) }
	short := func() { pause(rand.N(400 * time.Millisecond)) }
	kinds := []struct {
		name string
		do   func()
	}{
		{"server killed", func() { s := all[rand.IntN(servers)]; s.Kill(); short(); s.Run() }},
		{"server restarted", func() {
			s := all[rand.IntN(servers)]
			if err := s.Terminate(); err != nil {
				t.Errorf("a server does not shut down: %v", err)
			}
			s.Run()
		}},
		{"subscriptions killed", func() { store.Do("client", "kill", "type", "pubsub") }},
		{"tail lost", func() {
			key := "wskit:log:{" + topic(rand.IntN(topics)) + "}"
			since := r.Now()
			old, err := client.Dump(context.Background(), key).Result()
			short()
			if err == nil {
				err = client.RestoreReplace(context.Background(), key, time.Hour, old).Err()
				mayLose(since)
			}
			if err != nil && err != goredis.Nil {
				t.Errorf("a tail is not lost: %v", err)
			}
		}},
		{"redis killed, without its data", func() {
			since := r.Now()
			store.Kill()
			short()
			store.Run()
			mayLose(since)
		}},
		{"redis stalled", func() { store.Stall(); short(); store.Resume() }},
		{"way to redis cut", func() { toRedis.Cut(); short(); toRedis.Mend() }},
		{"way to redis mute", func() { toRedis.Mute(); short(); toRedis.Mend() }},
		{"answers of redis lost", func() { toRedis.Lose(); short(); toRedis.Mend() }},
		{"clients cut", func() { toServer.Cut(); short(); toServer.Mend() }},
		{"clients half open", func() { toServer.Lose(); short(); toServer.Mend() }},
		{"clients slow", func() { toServer.Delay(200 * time.Millisecond); short(); toServer.Mend() }},
	}
	pause(500 * time.Millisecond)
	happened := make(map[string]int)
	var order []int
	for range *deliveryFaults {
		if len(order) == 0 {
			order = rand.Perm(len(kinds))
		}
		k := kinds[order[0]]
		order = order[1:]
		happened[k.name]++
		k.do()
		short()
	}

	stop()
	quiet.Store(true)
	time.AfterFunc(hangGuard, giveUp)
	posting.Wait()
	// The last messages show that a follower has what is before them.
	for n := 0; ; n++ {
		last := func(i int) string { return fmt.Sprintf("last %d of %d", n, i) }
		for i := range topics {
			ws := PostUntilKnown(known, r, nil, "last", targets, Post{topic(i), last(i)})
			if ws != nil {
				_ = ws.CloseNow()
			}
		}
		settled := 0
		for wait := time.Now().Add(15 * time.Second); settled < followers && time.Now().Before(wait); pause(20 * time.Millisecond) {
			settled = 0
			for i, f := range feeds {
				if f.Last() == last(i%topics) {
					settled++
				}
			}
		}
		if settled == followers {
			break
		}
		if known.Err() != nil {
			t.Errorf("%d followers of %d have received the last message", settled, followers)
			break
		}
	}
	end()
	reading.Wait()
	for _, f := range feeds {
		f.Settled()
	}

	report, err := deliverytest.CheckFile(name)
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	summary := deliverySummary(report, happened, time.Since(began), servers, followers, publishers)
	t.Log("\n" + summary)
	if *deliveryReport != "" {
		if err := os.WriteFile(*deliveryReport, []byte(summary), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(report.Violations) > 0 || report.Received < report.Published[deliverytest.Acked] || report.Resumed == 0 {
		t.Errorf("%v", report)
	}
}

// deliverySummary is the report of a run.
func deliverySummary(r deliverytest.Report, happened map[string]int, took time.Duration, servers, followers, publishers int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	table := func(rows map[string]int) {
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			line("| %s | %d |", name, rows[name])
		}
	}
	faults := 0
	for _, n := range happened {
		faults += n
	}
	line("# Topics with history under faults\n")
	line("Written by `make delivery`; do not edit. internal/faulttest says what is done, internal/deliverytest what is checked.\n")
	line("%d servers, %d clients that follow and %d that publish, on one Redis that keeps nothing on disk, for %.0f s: %d messages published, %d of unknown outcome, %d delivered, %d faults, **%d violations**.\n",
		servers, followers, publishers, took.Seconds(), r.Published[deliverytest.Acked], r.Published[deliverytest.Unknown], r.Received, faults, len(r.Violations))
	line("| fault | times |\n|---|---|")
	table(happened)
	line("\n| a client came back, or its topic could not go on | times |\n|---|---|")
	line("| resumed without a loss | %d |", r.Resumed)
	resets := make(map[string]int)
	for reason, n := range r.Resets {
		resets["told that messages may be missing: "+reason] = n
	}
	table(resets)
	if r.Lost > 0 {
		line("\n%d messages that were acknowledged were lost with the data of Redis before a client that was there got them.", r.Lost)
	}
	if len(r.Violations) > 0 {
		line("\nViolations:\n\n- %s", strings.Join(r.Violations, "\n- "))
	}
	return b.String()
}
