package redis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

var anHour = pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: time.Hour}

func appendTo(t *testing.T, l pubsub.Log, topic, frame, id string) pubsub.Position {
	t.Helper()
	p, err := l.Append(ctx, pubsub.Message{Topic: topic, Frame: []byte(frame)}, anHour, id)
	if err != nil {
		t.Errorf("Append to %q: %v", topic, err)
	}
	return p
}

// readFrom reads what follows a position.
func readFrom(t *testing.T, l pubsub.Log, topic string, from pubsub.Position) pubsub.Page {
	t.Helper()
	page, err := l.Read(ctx, topic, anHour, pubsub.ReadOptions{From: from, Messages: 10_000, Bytes: 1 << 30})
	if err != nil {
		t.Fatalf("Read of %q: %v", topic, err)
	}
	return page
}

func framesOf(p pubsub.Page) string {
	var frames []string
	for _, m := range p.Messages {
		frames = append(frames, string(m.Frame))
	}
	return strings.Join(frames, " ")
}

// The client does not repeat an Append without an answer. With an id, the caller may.
func TestAppendIsNotReplayed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	good := newBroker(t, s, redis.BrokerOptions{})
	appendTo(t, good, "room", "first", "") // the server has the script
	in := subscribe(t, good, "room")
	b := brokerOn(t, &goredis.Options{Addr: withoutCommand(t, s.Addr, "evalsha"), MaxRetries: 3}, redis.BrokerOptions{})
	for _, frame := range []string{"once", "no id"} {
		id := ""
		if frame == "once" {
			id = "id"
		}
		if p, err := b.Append(ctx, pubsub.Message{Topic: "room", Frame: []byte(frame)}, anHour, id); err == nil {
			t.Errorf("an Append without an answer returned %+v", p)
		}
		eventually(t, "it has arrived", func() bool { return in.count(frame) == 1 })
	}
	p := appendTo(t, good, "room", "again", "id")
	appendTo(t, good, "room", "last", "")
	eventually(t, "the last has arrived", func() bool { return in.count("last") == 1 })
	page := readFrom(t, good, "room", pubsub.Position{})
	if framesOf(page) != "first once no id last" || page.Messages[1].Position != p || in.len() != 3 {
		t.Errorf("the repeated Append returned %+v; the log has %s, %d were delivered", p, framesOf(page), in.len())
	}
	if n := b.Stats().Failed; n != 2 {
		t.Errorf("Failed is %d", n)
	}
}

// Messages of different topics fail alone.
func TestErrorsOfAppendAreOfTheRightCall(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "app", "on", "nopass", "+@all", "~wskit:log:{good*", "~wskit:log:{foreign}", "&*")
	b := brokerOn(t, &goredis.Options{Addr: s.Addr, Username: "app", Password: "x"}, redis.BrokerOptions{})
	s.Do("SET", "wskit:log:{foreign}", "something else")
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			name := []string{"good", "bad", "foreign", "good too"}[i%4]
			_, err := b.Append(ctx, pubsub.Message{Topic: name, Frame: []byte(name)}, anHour, "")
			if (err != nil) != (name == "bad") || err != nil && !strings.Contains(err.Error(), "NOPERM") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"good", "good too", "foreign"} {
		page := readFrom(t, b, name, pubsub.Position{})
		if len(page.Messages) != 50 || page.Head.Offset != 50 || string(page.Messages[7].Frame) != name {
			t.Errorf("%s: %d messages, head %+v", name, len(page.Messages), page.Head)
		}
	}
}

// A server that has forgotten the script gets it again, for many calls at once too.
func TestAppendWhereTheScriptIsUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	in := subscribe(t, b, "room1")
	for range 3 {
		s.Do("SCRIPT", "FLUSH")
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { appendTo(t, b, fmt.Sprint("room", i%3), fmt.Sprint(i), "") })
		}
		wg.Wait()
		s.Do("SCRIPT", "FLUSH")
		if heads, err := b.Heads(ctx, []string{"room0", "none", "room1"}); err != nil || heads[0].Offset%34 != 0 || heads[1].Epoch != 0 || heads[2].Offset%33 != 0 {
			t.Errorf("%+v, %v", heads, err)
		}
	}
	eventually(t, "all are delivered", func() bool { return in.len() == 99 })
	for i, m := range in.got {
		if m.Position.Offset != uint64(i)+1 || i > 0 && m.Previous != in.got[i-1].Position.Tag {
			t.Fatalf("delivery %d is %+v", i, m)
		}
	}
}

func TestLogsAfterARestart(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]bool{"with its data": true, "empty": false} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--appendonly", "yes", "--appendfsync", "always"}
			if !keeps {
				args = nil
			}
			s := redistest.Start(t, args...)
			b := newBroker(t, s, redis.BrokerOptions{})
			in := subscribe(t, b, "room")
			before := appendTo(t, b, "room", "before", "id")
			s.Kill()
			s.Run()
			eventually(t, "the loss is reported", func() bool { return in.lost() == 1 })
			eventually(t, "reading works", func() bool {
				_, err := b.Read(ctx, "room", anHour, pubsub.ReadOptions{})
				return err == nil
			})
			again := appendTo(t, b, "room", "again", "id")
			after := appendTo(t, b, "room", "after", "")
			eventually(t, "it arrives", func() bool { return in.count("after") == 1 })
			page := readFrom(t, b, "room", before)
			if in.lost() != 1 {
				t.Errorf("%d losses reported", in.lost())
			}
			if keeps && (again != before || after.Epoch != before.Epoch || after.Offset != 2 || page.Lost != pubsub.LossNone || framesOf(page) != "after") {
				t.Errorf("before %+v, again %+v, after %+v; read %+v", before, again, after, page)
			}
			if !keeps && (again.Epoch == before.Epoch || again.Offset != 1 || after.Offset != 2 || page.Lost != pubsub.LossEpoch || page.Head != after) {
				t.Errorf("before %+v, again %+v, after %+v; read %+v", before, again, after, page)
			}
		})
	}
}

// A replica that lacks the last messages takes over.
func TestLogsAfterAFailoverWithoutTheTail(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	b := brokerOfSentinel(t, s, redis.BrokerOptions{})
	in := subscribe(t, b, "room")
	var seen []pubsub.Position
	for i := range 5 {
		seen = append(seen, appendTo(t, b, "room", fmt.Sprint(i), fmt.Sprint(i)))
	}
	eventually(t, "the replica has them", func() bool {
		last, _ := s.Replica.Do("HMGET", logKeyOf("room"), "o").([]any)
		return len(last) == 1 && last[0] == "5"
	})
	s.Master.Do("ACL", "SETUSER", "default", "-psync", "-sync")
	s.Master.Do("CLIENT", "KILL", "TYPE", "replica")
	for i := range 5 {
		seen = append(seen, appendTo(t, b, "room", fmt.Sprint(5+i), fmt.Sprint(5+i)))
	}
	eventually(t, "all are delivered", func() bool { return in.len() == 10 })
	s.Master.Kill()
	s.DetectFailures()
	eventually(t, "the replica has taken over", func() bool {
		p, err := b.Append(ctx, pubsub.Message{Topic: "room", Frame: []byte("new")}, anHour, "new")
		return err == nil && p.Offset == 6
	})
	eventually(t, "the loss is reported", func() bool { return in.lost() > 0 })
	last := appendTo(t, b, "room", "last", "")
	eventually(t, "it arrives", func() bool { return in.count("last") == 1 })
	if m := in.got[len(in.got)-1]; m.Position != last || last.Epoch != seen[0].Epoch || m.Previous == seen[5].Tag {
		t.Errorf("delivered %+v at %+v", m, last)
	}
	for i, p := range seen {
		page := readFrom(t, b, "room", p)
		if i < 5 && (page.Lost != pubsub.LossNone || !strings.HasSuffix(framesOf(page), "new last")) || i >= 5 && page.Lost != pubsub.LossRewound {
			t.Errorf("from %d: %+v", i, page)
		}
	}
	// An id that was lost with its message is appended again.
	if p := appendTo(t, b, "room", "9", "9"); p == seen[9] || p.Offset != last.Offset+1 {
		t.Errorf("the lost id is at %+v", p)
	}
}

// A slot moves to another node while messages are appended and read.
func TestLogsFollowTheirSlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	b, reads := newClusterBroker(t, c, redis.BrokerOptions{}), newClusterBroker(t, c, redis.BrokerOptions{})
	slot := slotOf(c, logKeyOf("room"))
	appended := 0
	more := func() {
		for range 5 {
			appendTo(t, b, "room", fmt.Sprint(appended), fmt.Sprint(appended%7, "id", appended))
			appended++
			page := readFrom(t, reads, "room", pubsub.Position{})
			heads, err := reads.Heads(ctx, []string{"room", "other"})
			if page.Head.Offset != uint64(appended) || len(page.Messages) != appended || err != nil || heads[0] != page.Head {
				t.Errorf("%d were appended, the head is %+v: %+v, %v", appended, page.Head, heads, err)
			}
		}
	}
	more()
	for range 2 {
		c.Move(slot, (c.Owner(slot)+1)%3, more)
		more()
	}
	if appended != 25 {
		t.Errorf("%d appended", appended)
	}
}

// A clock that is set back loses nothing, and one that is set forward ends what is too old by
// it, no more.
func TestLogsUnderAClockThatIsStepped(t *testing.T) {
	t.Parallel()
	s, clock := redistest.StartWithClock(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	first := appendTo(t, b, "room", "1", "")
	check := func(d time.Duration, frames string) {
		t.Helper()
		clock.Step(d)
		page := readFrom(t, b, "room", pubsub.Position{})
		if framesOf(page) != frames || page.Head.Epoch != first.Epoch {
			t.Errorf("after a step of %v the log is %+v", d, page)
		}
	}
	check(-24*time.Hour, "1")
	appendTo(t, b, "room", "2", "")
	check(0, "1 2")
	check(24*time.Hour, "1 2")
	check(50*time.Minute, "1 2")
	appendTo(t, b, "room", "3", "")
	check(-20*time.Minute, "1 2 3")
	check(40*time.Minute, "3")
	check(time.Hour, "")
	appendTo(t, b, "room", "4", "")
	check(0, "4")
	check(119*time.Minute, "")
	if page := readFrom(t, b, "room", first); page.Lost != pubsub.LossTrimmed {
		t.Errorf("%+v", page)
	}
	// A message that is appended by a clock that is late is not too old when the clock is right again.
	appendTo(t, b, "late", "before", "")
	clock.Step(-24 * time.Hour)
	one := anHour
	one.Messages = 1
	if _, err := b.Append(ctx, pubsub.Message{Topic: "late", Frame: []byte("late")}, one, ""); err != nil {
		t.Error(err)
	}
	clock.Step(24 * time.Hour)
	if page := readFrom(t, b, "late", pubsub.Position{}); framesOf(page) != "late" {
		t.Errorf("%+v", page)
	}

	clock.Step(2*time.Hour + 2*time.Minute)
	if page := readFrom(t, b, "room", first); page.Lost != pubsub.LossEpoch || page.Head.Offset != 0 {
		t.Errorf("after the time of the log it is %+v", page)
	}
}

// What is removed from a log takes no memory, and neither do ids whose window is over.
func TestLogsStayBounded(t *testing.T) {
	t.Parallel()
	s, clock := redistest.StartWithClock(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	h := pubsub.History{Messages: 20, Bytes: 1 << 20, Age: 24 * time.Hour}
	add := func(n int, h pubsub.History, id string) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				this := id
				if id != "" {
					this += fmt.Sprint(i)
				}
				if _, err := b.Append(ctx, pubsub.Message{Topic: "room", Frame: []byte("f")}, h, this); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	// holds checks how many fields of ids there are, and that all bundles but the oldest have messages
	// that are kept only.
	base := 0
	holds := func(when string, ids, kept int) {
		t.Helper()
		counts := make(map[int]int)
		all := s.Do("HGETALL", logKeyOf("room")).(map[any]any)
		for name, value := range all {
			if number, err := strconv.Atoi(name.(string)); err == nil {
				var first, count int
				_, _ = fmt.Sscanf(value.(string), "%d %d", &first, &count)
				counts[number] = count
			}
		}
		others := len(all) - len(counts)
		if base == 0 {
			base = others
		}
		messages := 0
		for number, n := range counts {
			if number != slices.Min(slices.Collect(maps.Keys(counts))) {
				messages += n
			}
		}
		if others != base+ids || base > 20 || messages >= kept || len(counts) == 0 {
			t.Errorf("%s the log has %d fields besides bundles, for %d ids; its bundles have %v messages, of which %d are kept", when, others, ids/2, counts, kept)
		}
	}
	add(3000, h, "")
	holds("at first", 0, 20)
	add(300, h, "id")
	holds("with 300 ids", 600, 20)
	clock.Step(pubsub.IDWindow + time.Second)
	add(20, h, "")
	holds("when their window is over", 0, 20)
	large := h
	large.Messages = 10_000
	add(4500, large, "")
	page := readFrom(t, b, "room", pubsub.Position{})
	if len(page.Messages) != 4520 || page.Head.Offset != 3000+300+20+4500 {
		t.Errorf("%d messages up to %+v", len(page.Messages), page.Head)
	}
	for i, m := range page.Messages {
		if m.Position.Offset != page.Head.Offset-4520+uint64(i)+1 {
			t.Fatalf("message %d is %+v", i, m.Position)
		}
	}
	// A smaller bound counts at once; what it removes goes step by step.
	add(1, h, "")
	if page := readFrom(t, b, "room", pubsub.Position{}); len(page.Messages) != 20 {
		t.Errorf("%d messages", len(page.Messages))
	}
	add(10, h, "")
	holds("in the end", 0, 20)
	if n := s.Do("PTTL", logKeyOf("room")).(int64); n < 2*h.Age.Milliseconds() || n > 2*h.Age.Milliseconds()+longer {
		t.Errorf("it expires in %d ms", n)
	}
}

func TestFullServerAndLogs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	logger, logged := newLog()
	b := newBroker(t, s, redis.BrokerOptions{Logger: logger})
	redis.LookEvery(b, time.Millisecond)
	before := appendTo(t, b, "room", "before", "")
	room(t, s, "noeviction")
	client := s.Client()
	defer client.Close()
	if err := fill(t, client, 5000); err == nil {
		t.Fatal("the server is not full")
	}
	var err error
	for err == nil {
		var p pubsub.Position
		if p, err = b.Append(ctx, pubsub.Message{Topic: "room", Frame: make([]byte, 1000)}, anHour, ""); err == nil {
			before = p
		}
	}
	if !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Append to a full server: %v", err)
	}
	if page := readFrom(t, b, "room", pubsub.Position{}); page.Head != before || len(page.Messages) != int(before.Offset) {
		t.Errorf("%d messages, head %+v", len(page.Messages), page.Head)
	}
	// That reading works does not mean that publishing does, also after the second for which nothing may fail then.
	pause(1100 * time.Millisecond)
	readFrom(t, b, "room", before)
	if text := logged(); strings.Count(text, "publishing fails") != 1 || strings.Contains(text, "again") {
		t.Errorf("the log is\n%s", text)
	}
	if n := b.Stats().Evicted; n != 0 || strings.Contains(logged(), "evicts") {
		t.Errorf("%d evicted\n%s", n, logged())
	}
	s.Do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	eventually(t, "logs are lost, and that is counted", func() bool {
		_ = fill(t, client, 5000)
		heads, err := b.Heads(ctx, []string{"room"})
		return err == nil && heads[0] == pubsub.Position{} && b.Stats().Evicted > 0
	})
	eventually(t, "it is logged", func() bool { return strings.Contains(logged(), "logs of topics are lost") })
	if text := logged(); strings.Count(text, "logs of topics are lost") != 1 {
		t.Errorf("the log is\n%s", text)
	}
	if page := readFrom(t, b, "room", before); page.Lost != pubsub.LossEpoch {
		t.Errorf("%+v", page)
	}
}

// Nothing waits for a server that does not answer for longer than Timeout, and after that
// nothing waits at all.
func TestLogsAtAStalledServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{Timeout: 300 * time.Millisecond})
	eventually(t, "appending works", func() bool {
		_, err := b.Append(ctx, pubsub.Message{Topic: "room"}, anHour, "")
		return err == nil
	})
	s.Stall()
	for name, call := range map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error {
			_, err := b.Append(ctx, pubsub.Message{Topic: "room"}, anHour, "")
			return err
		},
		"Read": func(ctx context.Context) error {
			_, err := b.Read(ctx, "room", anHour, pubsub.ReadOptions{Messages: 1})
			return err
		},
		"Heads": func(ctx context.Context) error { _, err := b.Heads(ctx, []string{"room"}); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		if err := poll.Receive(t, done, name+" ends"); err == nil || !strings.HasPrefix(err.Error(), "redis: ") {
			t.Errorf("%s at a stalled server: %v", name, err)
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := call(over); err == nil {
			t.Errorf("%s with a context that is over has no error", name)
		}
	}
	fast := 0
	for range 200 {
		if _, err := b.Append(ctx, pubsub.Message{Topic: "room"}, anHour, ""); failsFast(err) {
			fast++
		}
	}
	if fast < 100 {
		t.Errorf("%d of 200 calls failed at once; the others waited", fast)
	}
	s.Resume()
	eventually(t, "appending works", func() bool {
		_, err := b.Append(ctx, pubsub.Message{Topic: "room"}, anHour, "")
		return err == nil
	})
	b.Close()
	if _, err := b.Append(ctx, pubsub.Message{Topic: "room"}, anHour, ""); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if _, err := b.Read(ctx, "room", anHour, pubsub.ReadOptions{}); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if _, err := b.Heads(ctx, []string{"room"}); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Heads after Close: %v", err)
	}
}

// What others write into a log, or publish as if it were of one, is not believed.
func TestForeignEntriesOfLogs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	keys := redis.BrokerOptions{Keys: [][]byte{[]byte("0123456789abcdef")}}
	b, forger := newBroker(t, s, keys), newBroker(t, s, redis.BrokerOptions{})
	var seen []pubsub.Position
	for i := range 3 {
		seen = append(seen, appendTo(t, b, "room", fmt.Sprint(i), ""))
	}
	in := subscribe(t, b, "room")
	appendTo(t, forger, "room", "forged", "")
	after := appendTo(t, b, "room", "after", "")
	eventually(t, "the next one arrives", func() bool { return in.count("after") == 1 })
	if in.len() != 1 || in.lost() != 1 || b.Stats().Ignored != 1 {
		t.Errorf("%d delivered, %d losses reported, %d ignored", in.len(), in.lost(), b.Stats().Ignored)
	}
	if page := readFrom(t, b, "room", seen[0]); framesOf(page) != "1 2" || !page.More {
		t.Errorf("%+v", page)
	}
	if page := readFrom(t, b, "room", seen[2]); page.Lost != pubsub.LossTrimmed || page.Head != after {
		t.Errorf("%+v", page)
	}
	back, err := b.Read(ctx, "room", anHour, pubsub.ReadOptions{Backwards: true, Messages: 10, Bytes: 1000})
	if err != nil || framesOf(back) != "after" {
		t.Errorf("%+v, %v", back, err)
	}
	// A message is of its log: it is no published message, and the other way round.
	genuine := s.Do("HGET", logKeyOf("room"), "1").(string)
	_, entry, _ := strings.Cut(genuine, "\n")
	entry = entry[12:] // behind the index
	ignored := b.Stats().Ignored
	forged := []string{entry[1:], "\x04" + entry, "\x05", "\x05x", "\x051 1 1\n" + entry + "x", "\x050 1 1\n" + entry, "\x04\x05x"}
	for _, payload := range forged {
		s.Do("PUBLISH", "wskit:topic:{room}", payload)
	}
	publish(t, b, "room", "last")
	eventually(t, "the last is there", func() bool { return in.count("last") == 1 })
	if n := b.Stats().Ignored - ignored; n != int64(len(forged)) {
		t.Errorf("%d of %d ignored", n, len(forged))
	}
	// Values that are no log are replaced.
	for i, damage := range []func(){
		func() { s.Do("SET", logKeyOf("room"), "x") },
		func() { s.Do("HSET", logKeyOf("room"), "o", "x") },
		func() { s.Do("HDEL", logKeyOf("room"), "q") },
	} {
		damage()
		page := readFrom(t, b, "room", after)
		p := appendTo(t, b, "room", "new", "")
		if page.Lost != pubsub.LossEpoch || p.Epoch != page.Head.Epoch || p.Offset != 1 {
			t.Errorf("damage %d: read %+v, appended at %+v", i, page, p)
		}
	}
}

// Messages of a topic that are published at the same time share a PUBLISH.
func TestPublishesOfATopicShareCommands(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	in := subscribe(t, newBroker(t, s, redis.BrokerOptions{}), "room")
	const callers, each = 100, 20
	for i := range each {
		s.Stall() // until all call
		var begun atomic.Int64
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				begun.Add(1)
				if n, err := b.PublishCounted(ctx, pubsub.Message{Topic: "room", Frame: fmt.Appendf(nil, "%d %d", c, i)}); n != 1 || err != nil {
					t.Errorf("%d receivers, %v", n, err)
				}
			})
		}
		eventually(t, "all call", func() bool { return begun.Load() == callers })
		s.Resume()
		wg.Wait()
	}
	eventually(t, "all arrive", func() bool { return in.len() == callers*each })
	var next [callers]int
	for _, m := range in.got {
		var c, i int
		if _, err := fmt.Sscanf(string(m.Frame), "%d %d", &c, &i); err != nil || i != next[c] || m.Topic != "room" {
			t.Fatalf("%q where %d is due", m.Frame, next[c])
		}
		next[c]++
	}
	if n := s.Calls("publish"); n > callers*each/4 {
		t.Errorf("%d PUBLISH for %d messages", n, callers*each)
	}
}

// What has failed to be appended has no part in what is published next.
func TestPublishAfterAFailedAppend(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	in := subscribe(t, b, "room")
	s.Do("ACL", "SETUSER", "default", "-evalsha", "-eval")
	for i := range 20 {
		if _, err := b.Append(ctx, pubsub.Message{Topic: "room", Frame: []byte("appended")}, anHour, fmt.Sprint(i)); err == nil {
			t.Fatal("Append is not refused")
		}
		publish(t, b, "room", fmt.Sprint(i))
	}
	eventually(t, "all arrive", func() bool { return in.len() == 20 })
}
