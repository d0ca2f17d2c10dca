package memory_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
)

var hour = pubsub.History{Messages: 1 << 20, Bytes: 1 << 30, Age: time.Hour}

func mustAppend(t *testing.T, b memory.Broker, topic, frame string, h pubsub.History, id string) pubsub.Position {
	t.Helper()
	p, err := b.Append(ctx, pubsub.Message{Topic: topic, Frame: []byte(frame)}, h, id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustRead(t *testing.T, b memory.Broker, topic string, h pubsub.History, from pubsub.Position) pubsub.Page {
	t.Helper()
	page, err := b.Read(ctx, topic, h, pubsub.ReadOptions{From: from, Messages: 1 << 30, Bytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// Logs that nothing is asked of take no memory when their time is over, and no timer runs on.
func TestLogsEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBroker()
		for i := range 5000 {
			h := pubsub.History{Messages: 10, Bytes: 1000, Age: time.Duration(1+i%300) * time.Second}
			for range i % 4 {
				mustAppend(t, b, fmt.Sprint(i), "frame", h, "")
			}
			mustRead(t, b, fmt.Sprint(i), h, pubsub.Position{})
		}
		first := b.Stats()
		time.Sleep(pubsub.IDWindow - time.Second)
		if s := b.Stats(); s.Logs != 5000 || s.LogBytes >= first.LogBytes {
			t.Errorf("before IDWindow is over: %+v, at the beginning %+v", s, first)
		}
		time.Sleep(time.Minute) // twice 80 s is not over for those of 100 s and more
		if s := b.Stats(); s.Logs < 5000*200/300 || s.Logs > 5000*215/300 {
			t.Errorf("after 3 minutes: %+v", s)
		}
		for range 20 { // a log that is asked for does not end
			time.Sleep(time.Minute)
			if heads, _ := b.Heads(ctx, []string{"299"}); heads[0].Offset != 3 {
				t.Fatalf("the head is %+v", heads[0])
			}
		}
		if s := b.Stats(); s.Logs != 1 {
			t.Errorf("after 20 minutes: %+v", s)
		}
		time.Sleep(10*time.Minute + 3*time.Second)
		if s := b.Stats(); s != (memory.BrokerStats{}) {
			t.Errorf("at the end: %+v", s)
		}
		// Many are looked at by and by, also behind many that do not end.
		for i := range 30_000 {
			mustAppend(t, b, fmt.Sprint(i), "frame", pubsub.History{Messages: 1, Bytes: 1, Age: time.Second}, "")
		}
		time.Sleep(time.Millisecond)
		for i := range 15_000 {
			mustAppend(t, b, fmt.Sprint("long", i), "frame", pubsub.History{Messages: 1, Bytes: 1, Age: 80 * time.Second}, "")
		}
		time.Sleep(pubsub.IDWindow + 20*time.Second)
		if s := b.Stats(); s.Logs != 15_000 {
			t.Errorf("of 45,000 logs, 15,000 that do not end: %+v", s)
		}
		time.Sleep(40 * time.Second)
		if s := b.Stats(); s != (memory.BrokerStats{}) {
			t.Errorf("of 45,000 logs: %+v", s)
		}
		mustAppend(t, b, "ids", "frame", pubsub.History{Messages: 1, Bytes: 1, Age: time.Second}, "id")
		time.Sleep(2*pubsub.IDWindow + 5*time.Second)
		if s := b.Stats(); s != (memory.BrokerStats{}) {
			t.Errorf("with an id: %+v", s)
		}
	})
}

// Times of a log, to the nanosecond.
func TestLogTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBroker()
		h := pubsub.History{Messages: 10, Bytes: 1000, Age: 70 * time.Second}
		p := mustAppend(t, b, "topic", "frame", h, "id")
		time.Sleep(h.Age)
		if page := mustRead(t, b, "topic", h, pubsub.Position{}); len(page.Messages) != 1 {
			t.Errorf("after Age the log is %+v", page)
		}
		time.Sleep(time.Nanosecond)
		if page := mustRead(t, b, "topic", h, p); len(page.Messages) != 0 || page.Head != p || page.Lost != "" {
			t.Errorf("1 ns later it is %+v", page)
		}
		time.Sleep(pubsub.IDWindow - h.Age - 1)
		if again := mustAppend(t, b, "topic", "frame", h, "id"); again != p {
			t.Errorf("the id of %+v was appended at %+v", p, again)
		}
		time.Sleep(2 * h.Age)
		if next := mustAppend(t, b, "topic", "frame", h, ""); next.Epoch != p.Epoch || next.Offset != 2 {
			t.Errorf("after twice Age, %+v is followed by %+v", p, next)
		}
		time.Sleep(2*pubsub.IDWindow + 2*time.Second)
		if next := mustAppend(t, b, "topic", "frame", h, "id"); next.Epoch == p.Epoch || next.Offset != 1 {
			t.Errorf("long after, %+v is followed by %+v", p, next)
		}
	})
}

// A client that publishes to many topics as much as their histories hold takes nothing from the histories of others,
// whatever is newer. Its own topics have equal shares of the rest.
func TestOneWriterRemovesNoOtherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 64 << 20
		b := memory.NewBroker(memory.BrokerOptions{MaxLogBytes: most})
		for i := range 1000 {
			time.Sleep(time.Nanosecond)
			mustAppend(t, b, fmt.Sprint("room ", i%20), strings.Repeat("x", 500), hour, "")
		}
		large := strings.Repeat("x", 60_000)
		for i := range 280 * 16 {
			time.Sleep(time.Nanosecond)
			mustAppend(t, b, fmt.Sprint("attack ", i%280), large, hour, "")
		}
		for i := range 20 {
			if page := mustRead(t, b, fmt.Sprint("room ", i), hour, pubsub.Position{}); len(page.Messages) != 50 {
				t.Errorf("of 50 messages of a small topic %d are left", len(page.Messages))
			}
		}
		for i := range 280 {
			if n := len(mustRead(t, b, fmt.Sprint("attack ", i), hour, pubsub.Position{}).Messages); n < 2 || n > 5 {
				t.Errorf("%d messages of a large topic are left", n)
			}
		}
		if s := b.Stats(); s.LogBytes > most || s.LogBytes < most-100_000 || s.Ended > 0 {
			t.Errorf("%+v of %d", s, most)
		}
	})
}

// Over the bound the oldest messages of the largest logs are removed, and nothing else. Logs are equally large if their
// sizes are between the same powers of two.
func TestLogBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, topics = 100_000, 40
		random := rand.New(rand.NewPCG(1, 2))
		b := memory.NewBroker(memory.BrokerOptions{MaxLogBytes: most})
		type kept struct{ n, bytes int }
		logs := make([][]kept, topics)
		removed := 0
		size := func(topic int) int {
			if logs[topic] == nil {
				return 0
			}
			n := 300 + len(fmt.Sprint(topic))
			for _, m := range logs[topic] {
				n += m.bytes
			}
			return n
		}
		makeRoom := func() {
			for {
				total, first := 0, -1
				for i := range logs {
					total += size(i)
					if len(logs[i]) == 0 {
						continue
					}
					if first < 0 || bits.Len(uint(size(i))) > bits.Len(uint(size(first))) ||
						bits.Len(uint(size(i))) == bits.Len(uint(size(first))) && logs[i][0].n < logs[first][0].n {
						first = i
					}
				}
				if total <= most {
					return
				}
				logs[first] = logs[first][1:]
				removed++
			}
		}
		for n := range 3000 {
			time.Sleep(time.Nanosecond)
			frame := binary.BigEndian.AppendUint64(make([]byte, random.IntN(300)), uint64(n))
			topic := min(random.IntN(topics), random.IntN(topics))
			mustAppend(t, b, fmt.Sprint(topic), string(frame), hour, "")
			logs[topic] = append(logs[topic], kept{n, 160 + len(frame)})
			makeRoom()
			if s := b.Stats(); s.LogBytes > most || s.LogBytes != memory.CountLogBytes(b) || s.Removed != int64(removed) {
				t.Fatalf("message %d: %+v, and counted %d; removed are to be %d", n, s, memory.CountLogBytes(b), removed)
			}
			if n%100 > 0 && n < 2999 {
				continue
			}
			for i := range topics {
				if logs[i] == nil {
					continue
				}
				var got, want []int
				for _, m := range mustRead(t, b, fmt.Sprint(i), hour, pubsub.Position{}).Messages {
					got = append(got, int(binary.BigEndian.Uint64(m.Frame[len(m.Frame)-8:])))
				}
				for _, m := range logs[i] {
					want = append(want, m.n)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("after message %d topic %d has %v, want %v", n, i, got, want)
				}
			}
		}
		if s := b.Stats(); s.Ended != 0 || removed < 1000 {
			t.Errorf("%+v, %d are removed", s, removed)
		}
		// Many new logs end old ones, and the newest have their messages.
		for n := range 1000 {
			time.Sleep(time.Nanosecond)
			mustAppend(t, b, fmt.Sprint("new", n), "frame", hour, "")
		}
		s := b.Stats()
		if s.LogBytes > most || s.Logs > most/300 || s.Ended < 500 {
			t.Errorf("after 1000 new logs: %+v", s)
		}
		if page := mustRead(t, b, "new999", hour, pubsub.Position{}); len(page.Messages) != 1 {
			t.Errorf("the newest log is %+v", page)
		}
		// A message that does not fit is delivered, and its position is kept. The other logs stay.
		if p := mustAppend(t, b, "large", strings.Repeat("x", most), hour, ""); p.Offset != 1 {
			t.Errorf("a large message is at %+v", p)
		} else if page := mustRead(t, b, "large", hour, p); page.Head != p || page.Lost != "" || len(page.Messages) != 0 {
			t.Errorf("after it: %+v", page)
		}
		if now := b.Stats(); now.LogBytes > most || now.Logs < s.Logs-1 {
			t.Errorf("after a large message: %+v, before %+v", now, s)
		}
	})
}

// Ids are refused when there is no room, and never forgotten before their time.
func TestIDsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 50_000
		b := memory.NewBroker(memory.BrokerOptions{MaxLogBytes: most})
		var known []pubsub.Position
		add := func(n int) error {
			p, err := b.Append(ctx, pubsub.Message{Topic: "topic", Frame: make([]byte, 100)}, hour, fmt.Sprint("id", n))
			if err == nil {
				known = append(known, p)
			}
			return err
		}
		for add(len(known)) == nil {
		}
		full := len(known)
		if full < 100 || full > most/400 {
			t.Errorf("%d ids of one topic found room", full)
		}
		others := 0
		for ; ; others++ {
			m := pubsub.Message{Topic: fmt.Sprint("other", others), Frame: make([]byte, 100)}
			if _, err := b.Append(ctx, m, hour, "id"); err != nil {
				break
			}
		}
		if others < 50 {
			t.Errorf("%d other topics have room for an id", others)
		}
		if p := mustAppend(t, b, "topic", "frame", hour, ""); p.Offset != uint64(full)+1 {
			t.Errorf("after %d messages and a refused one: %+v", full, p)
		}
		time.Sleep(pubsub.IDWindow)
		for i, p := range known {
			if again := mustAppend(t, b, "topic", "frame", hour, fmt.Sprint("id", i)); again != p {
				t.Fatalf("the id of %+v was appended at %+v", p, again)
			}
		}
		time.Sleep(pubsub.IDWindow + 3*time.Second)
		if err := add(full); err != nil {
			t.Errorf("after twice IDWindow: %v", err)
		}
		if s := b.Stats(); s.LogBytes > most || s.LogBytes != memory.CountLogBytes(b) {
			t.Errorf("%+v, and counted %d", s, memory.CountLogBytes(b))
		}
	})
}

// An id is known for IDWindow, whenever it was appended.
func TestIDsAreKnownForTheirWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = 7 * time.Second
		b := memory.NewBroker()
		var known []pubsub.Position
		for n := range 100 {
			known = append(known, mustAppend(t, b, "topic", "frame", hour, fmt.Sprint(n)))
			if old := n - int(pubsub.IDWindow/step); old >= 0 {
				time.Sleep(pubsub.IDWindow % step)
				if again := mustAppend(t, b, "topic", "frame", hour, fmt.Sprint(old)); again != known[old] {
					t.Fatalf("the id of %+v was appended at %+v, IDWindow after it", known[old], again)
				}
				time.Sleep(step - pubsub.IDWindow%step)
			} else {
				time.Sleep(step)
			}
		}
		if s := b.Stats(); s.LogBytes != memory.CountLogBytes(b) {
			t.Errorf("%+v, and counted %d", s, memory.CountLogBytes(b))
		}
	})
}

// A message is appended when those before it have been delivered, and reading waits for no delivery.
func TestAppendsTakeTurns(t *testing.T) {
	b := memory.NewBroker()
	entered, goOn := make(chan uint64), make(chan bool)
	sub, err := b.Subscribe(ctx, "topic", func(m pubsub.Message) {
		entered <- m.Position.Offset
		<-goOn
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	const n = 20
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { mustAppend(t, b, "topic", "frame", hour, "") })
	}
	for i := range uint64(n) {
		if offset := <-entered; offset != i+1 {
			t.Errorf("message %d is delivered where %d is due", offset, i+1)
		}
		for range 100 {
			runtime.Gosched()
			if head := mustRead(t, b, "topic", hour, pubsub.Position{}).Head; head.Offset != i+1 {
				t.Errorf("while message %d is delivered, the log has %d", i+1, head.Offset)
			}
		}
		goOn <- true
	}
	wg.Wait()
}

// Everything at once, with little room: no message is delivered out of order, and the count of bytes stays right.
func TestLogsUnderPressure(t *testing.T) {
	b := memory.NewBroker(memory.BrokerOptions{MaxLogBytes: 20_000})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for i := range 3000 {
				topic := fmt.Sprint(random.IntN(60))
				h := pubsub.History{Messages: 1 + random.IntN(20), Bytes: 2000, Age: time.Duration(1+random.IntN(20)) * time.Millisecond}
				switch random.IntN(4) {
				case 0:
					page, err := b.Read(ctx, topic, h, pubsub.ReadOptions{Messages: 10, Bytes: 500})
					for j, m := range page.Messages {
						if j > 0 && m.Previous != page.Messages[j-1].Position.Tag || err != nil {
							t.Errorf("a hole: %+v, %v", page.Messages, err)
						}
					}
				case 1:
					if _, err := b.Heads(ctx, []string{topic, "none"}); err != nil {
						t.Error(err)
					}
				default:
					id := ""
					if i%7 == 0 {
						id = fmt.Sprint(g, i)
					}
					_, _ = b.Append(ctx, pubsub.Message{Topic: topic, Frame: make([]byte, random.IntN(500))}, h, id)
				}
			}
		})
	}
	wg.Wait()
	if s := b.Stats(); s.LogBytes > 20_000 || s.LogBytes != memory.CountLogBytes(b) || s.Removed == 0 || s.Ended == 0 {
		t.Errorf("%+v, and counted %d", s, memory.CountLogBytes(b))
	}
}

// What is counted is about what is taken.
func TestLogMemory(t *testing.T) {
	for name, fill := range map[string]func(memory.Broker){
		"one log": func(b memory.Broker) {
			for range 100_000 {
				mustAppend(t, b, "topic", "0123456789", hour, "")
			}
		},
		"logs of ten": func(b memory.Broker) {
			for i := range 30_000 {
				mustAppend(t, b, fmt.Sprint("topic", i/10), "0123456789", hour, "")
			}
		},
		"empty logs": func(b memory.Broker) {
			for i := range 30_000 {
				mustRead(t, b, fmt.Sprint("topic", i), hour, pubsub.Position{})
			}
		},
		"ids": func(b memory.Broker) {
			for i := range 50_000 {
				mustAppend(t, b, "topic", "", pubsub.History{Messages: 1, Bytes: 1, Age: time.Hour}, fmt.Sprint("an id with 24 bytes ", i%10000+10000, i/10000))
			}
		},
	} {
		b := memory.NewBroker(memory.BrokerOptions{MaxLogBytes: 1 << 30})
		before := heap()
		fill(b)
		taken := float64(heap() - before)
		counted := float64(b.Stats().LogBytes)
		t.Logf("%s: %.0f bytes, %.0f counted", name, taken, counted)
		if taken > 1.3*counted {
			t.Errorf("%s take %.0f bytes, and %.0f are counted", name, taken, counted)
		}
		runtime.KeepAlive(b)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	b := memory.NewBroker()
	sub, err := b.Subscribe(ctx, "topic", func(pubsub.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	m := pubsub.Message{Topic: "topic", Frame: []byte("f")}
	h := pubsub.History{Messages: 100, Bytes: 1000, Age: time.Hour}
	append := func() {
		if _, err := b.Append(ctx, m, h, ""); err != nil {
			t.Error(err)
		}
	}
	for range 200 {
		append()
	}
	if n := testing.AllocsPerRun(100, append); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBrokerOptionsAreChecked(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "BrokerOptions.MaxLogBytes is -1") {
			t.Errorf("NewBroker panicked with %q", text)
		}
	}()
	memory.NewBroker(memory.BrokerOptions{MaxLogBytes: -1})
}
