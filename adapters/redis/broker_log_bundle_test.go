package redis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
)

// appendTogether appends messages at the same time, so that they share commands, and returns those that were
// appended by their offsets. Some are the same message as others, with the same id.
func appendTogether(t *testing.T, b redis.Broker, random *rand.Rand, round, n int, h pubsub.History, into map[uint64]pubsub.Message) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		m := pubsub.Message{Topic: "room", Frame: []byte(fmt.Sprint(round, "-", i, strings.Repeat(".", random.IntN(40))))}
		id := ""
		switch kind := random.IntN(6); {
		case kind == 0 && i > 0: // the same message again
			n := random.IntN(30)
			id = fmt.Sprint("id", n)
			m.Frame = []byte(id + strings.Repeat("!", 10*n))
		case kind == 1:
			m.Frame = append(m.Frame, strings.Repeat("large", random.IntN(100))...)
		}
		wg.Go(func() {
			p, err := b.Append(ctx, m, h, id)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if other, ok := into[p.Offset]; ok && (other.Position != p || string(other.Frame) != string(m.Frame)) {
				t.Errorf("%q was appended at %+v, where %q is", m.Frame, p, other.Frame)
			} else if !ok {
				m.Position = p
				into[p.Offset] = m
			}
		})
	}
	wg.Wait()
}

// Messages that are appended at the same time are stored together. Whatever is kept of them, and from wherever
// it is read, a page has just the messages that a list of all messages says.
func TestBundlesAreReadByMessage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	byOffset := make(map[uint64]pubsub.Message)
	kept := 0 // where the log began after the round before
	for round := range 40 {
		h := anHour
		h.Messages = 1 + random.IntN(400)
		h.Bytes = 1 + random.IntN(20_000)
		appendTogether(t, b, random, round, 1+random.IntN(200), h, byOffset)
		if t.Failed() {
			return
		}
		var all []pubsub.Message
		previous := uint32(0)
		for offset := uint64(1); offset <= uint64(len(byOffset)); offset++ {
			m, ok := byOffset[offset]
			if !ok {
				t.Fatalf("no message was appended at %d of %d", offset, len(byOffset))
			}
			m.Previous, previous = previous, m.Position.Tag
			all = append(all, m)
		}
		// The last Append removed what was too much for its bounds; earlier ones may have removed more.
		oldest := len(all) - 1
		for size := len(all[oldest].Frame); oldest > 0 && len(all)-oldest < h.Messages; oldest-- {
			if size += len(all[oldest-1].Frame); size > h.Bytes {
				break
			}
		}
		oldest = max(oldest, kept)
		kept = oldest
		for range 30 {
			checkPage(t, b, random, all, oldest)
		}
		if t.Failed() {
			return
		}
	}
	if n := s.Calls("evalsha"); len(byOffset) < 2000 {
		t.Errorf("%d messages were appended, %d commands", len(byOffset), n)
	}
}

// checkPage reads a page from a random position.
func checkPage(t *testing.T, b redis.Broker, random *rand.Rand, all []pubsub.Message, oldest int) {
	t.Helper()
	r := pubsub.ReadOptions{Messages: random.IntN(300), Bytes: random.IntN(20_000), Backwards: random.IntN(2) == 0}
	from := -1
	if random.IntN(5) > 0 {
		from = max(0, oldest-2) + random.IntN(min(len(all), len(all)-oldest+2))
		r.From = all[from].Position
	}
	page, err := b.Read(ctx, "room", anHour, r)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	more, size := false, 0
	take := func(m pubsub.Message) bool {
		size += len(m.Frame)
		if len(want) == r.Messages || len(want) > 0 && size > r.Bytes {
			more = true
			return false
		}
		want = append(want, entryText(m))
		return true
	}
	lost := pubsub.LossNone
	switch last := len(all) - 1; {
	case from >= 0 && !r.Backwards && from+1 < oldest, from >= 0 && r.Backwards && from < oldest:
		lost = pubsub.LossTrimmed
	case r.Backwards:
		if from < 0 {
			from = last + 1
		}
		for i := from - 1; i >= oldest && take(all[i]); i-- {
		}
		slices.Reverse(want)
	default:
		for i := max(from+1, oldest); i <= last && take(all[i]); i++ {
		}
	}
	var got []string
	for _, m := range page.Messages {
		got = append(got, entryText(m))
	}
	if page.Lost != lost || page.More != more || !slices.Equal(got, want) || page.Head != all[len(all)-1].Position {
		t.Errorf("%+v, of %d messages from %d on: %d messages, more %v, lost %q; due are %d, more %v, lost %q", r, len(all)-oldest, oldest+1, len(got), page.More, page.Lost, len(want), more, lost)
	}
}

func entryText(m pubsub.Message) string {
	return strconv.Itoa(int(m.Previous)) + fmt.Sprint(m.Position) + string(m.Frame)
}

// A store that loses the end of a log may lose a part of a bundle: what follows has the same offsets and other tags.
func TestPartOfABundleIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	b := newBroker(t, s, redis.BrokerOptions{})
	client := s.Client()
	defer client.Close()
	random := rand.New(rand.NewPCG(1, 1))
	byOffset := make(map[uint64]pubsub.Message)
	appendTogether(t, b, random, 0, 300, anHour, byOffset)
	n := len(byOffset)
	const lost = 70
	if err := loseTail(client, logKeyOf("room"), lost); err != nil {
		t.Fatal(err)
	}
	again := make(map[uint64]pubsub.Message)
	appendTogether(t, b, random, 1, 300, anHour, again)
	for offset := 1; offset <= n; offset++ {
		p := byOffset[uint64(offset)].Position
		page := readFrom(t, b, "room", p)
		if wasLost := offset > n-lost; wasLost != (page.Lost == pubsub.LossRewound) || !wasLost && (page.Lost != "" || page.Messages[0].Position.Offset != p.Offset+1) {
			t.Errorf("after %d of %d messages were lost, from message %d: %q", lost, n, offset, page.Lost)
		}
	}
}
