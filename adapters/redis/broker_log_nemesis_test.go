package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

// Brokers of several processes append and follow while Redis and the ways to it fail in random order. What
// followers received is checked afterwards.
//
// LOG_FAULTS is how many faults there are, and LOG_RECORDING a file for the recording.
func TestLogsUnderRandomFaults(t *testing.T) {
	faults := 25
	if n, err := strconv.Atoi(os.Getenv("LOG_FAULTS")); err == nil {
		faults = n
	}
	const brokers, topics, followers, publishers = 3, 3, 9, 4
	h := pubsub.History{Messages: 60, Bytes: 1 << 20, Age: time.Hour}
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--client-output-buffer-limit", "pubsub 64kb 0 0")
	client := s.Client()
	defer client.Close()

	recording := os.Getenv("LOG_RECORDING")
	if recording == "" {
		recording = filepath.Join(t.TempDir(), "recording.jsonl")
	}
	file, err := os.Create(recording)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := deliverytest.NewRecorder(file)

	var logs []redis.Broker
	var proxies []*redistest.Proxy
	for range brokers {
		p := redistest.StartProxy(t, s.Addr)
		proxies = append(proxies, p)
		logs = append(logs, brokerOn(t, &goredis.Options{Addr: p.Addr}, redis.BrokerOptions{
			Timeout: 300 * time.Millisecond, HealthTimeout: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}))
	}
	topic := func(i int) string { return fmt.Sprint("topic", i%topics) }

	following, end := context.WithCancel(ctx)
	settling, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var reading, appending sync.WaitGroup
	for i := range followers {
		f := &deliverytest.Follower{Log: logs[i%brokers], History: h, Recorder: r, Client: fmt.Sprint("client", i), Topic: topic(i / brokers)}
		reading.Go(func() {
			f.Follow(following)
			if err := f.Settle(settling); err != nil {
				t.Errorf("%s does not settle: %v", f.Client, err)
			}
		})
	}
	publishing, stop := context.WithCancel(ctx)
	for p := range publishers {
		appending.Go(func() {
			for i := 0; publishing.Err() == nil; i++ {
				deliverytest.Append(settling, r, logs[p%brokers], topic(rand.IntN(topics)), h, fmt.Sprintf("%d-%d", p, i))
				pause(time.Duration(rand.IntN(4)) * time.Millisecond)
			}
		})
	}

	short := func() { pause(time.Duration(20+rand.IntN(150)) * time.Millisecond) }
	mayLose := func(since int64) { r.Record(deliverytest.Event{Kind: deliverytest.MayLose, Begun: since}) }
	kinds := []struct {
		name string
		do   func()
	}{
		{"subscriptions killed", func() { s.Do("client", "kill", "type", "pubsub") }},
		{"connections killed", func() { s.Do("client", "kill", "type", "normal") }},
		{"a way cut", func() { p := proxies[rand.IntN(brokers)]; p.Cut(); short(); p.Mend() }},
		{"a way mute", func() { p := proxies[rand.IntN(brokers)]; p.Mute(); short(); p.Mend() }},
		{"answers lost", func() { p := proxies[rand.IntN(brokers)]; p.Lose(); short(); p.Mend() }},
		{"a way slow", func() { p := proxies[rand.IntN(brokers)]; p.Delay(50 * time.Millisecond); short(); p.Mend() }},
		{"stalled", func() { s.Stall(); short(); s.Resume() }},
		{"killed", func() { s.Kill(); short(); s.Run() }},
		{"all data lost", func() {
			since := r.Now()
			s.Do("flushall")
			mayLose(since)
		}},
		{"a tail lost", func() {
			key := logKeyOf(topic(rand.IntN(topics)))
			since := r.Now()
			old, err := client.Dump(ctx, key).Result()
			short()
			if err == nil { // there is a log
				err = client.RestoreReplace(ctx, key, time.Hour, old).Err()
				mayLose(since)
			}
			if err != nil && err != goredis.Nil {
				t.Error(err)
			}
		}},
	}
	happened := make(map[string]int)
	for n := range faults {
		f := kinds[(n+rand.IntN(2))%len(kinds)] // nearly each as often as the others
		happened[f.name]++
		f.do()
		short()
		for i := range topics {
			deliverytest.Audit(ctx, r, logs[rand.IntN(brokers)], topic(i), h, fmt.Sprint("audit", n))
		}
	}
	stop()
	guard, cancel := context.WithTimeout(ctx, poll.Guard)
	defer cancel()
	defer context.AfterFunc(guard, giveUp)()
	appending.Wait()
	end()
	reading.Wait()

	report, err := deliverytest.CheckFile(recording)
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	t.Logf("%v: %v", happened, report)
	if len(report.Violations) > 0 || report.Received < report.Published[deliverytest.Acked] {
		t.Errorf("%v", report)
	}
}
