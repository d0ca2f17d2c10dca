package presenceview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
)

// source is a presence of one topic.
type source struct {
	pubsub.Presence
	report  func(pubsub.PresenceReport)
	err     error
	asked   int
	closed  int
	watches func(ctx context.Context) // before Watch returns
}

func (s *source) Watch(ctx context.Context, _ string, report func(pubsub.PresenceReport)) (pubsub.Subscription, error) {
	s.asked++
	s.report = report
	if s.watches != nil {
		s.watches(ctx)
	}
	if s.err != nil {
		return nil, s.err
	}
	return s, nil
}

func (s *source) Close() error {
	s.closed++
	return nil
}

func newViews() *Views {
	return &Views{MaxList: 1 << 20, Panicked: func(where string, v any) error { return fmt.Errorf("%s: %v", where, v) }}
}

// page is a client that watches, and keeps what it is told as a client does.
type page struct {
	mu     sync.Mutex
	times  []time.Time // of frames
	count  int
	large  bool
	listed map[string]string // user and data by id or user
	broken []string
}

func (p *page) Send(s *frame.Shared) {
	var m struct {
		Type    string
		Payload struct {
			Topic                          string
			Count                          int
			Members, Joined, Changed, Left []struct {
				ID, User string
				Data     json.RawMessage
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times = append(p.times, time.Now())
	if err := json.Unmarshal(s.Payload, &m); err != nil || m.Type != "$ws:presence" || m.Payload.Topic != "a" {
		p.broken = append(p.broken, string(s.Payload))
	}
	key := func(id, user string) string {
		if id != "" {
			return "id " + id
		}
		return "user " + user
	}
	changes := len(m.Payload.Joined) + len(m.Payload.Changed) + len(m.Payload.Left)
	p.count = m.Payload.Count
	if p.large = changes == 0 && !strings.Contains(string(s.Payload), `"members":`); p.large {
		p.listed = nil
		return
	}
	if changes == 0 {
		p.listed = make(map[string]string)
	}
	for _, e := range append(m.Payload.Members, m.Payload.Joined...) {
		if _, ok := p.listed[key(e.ID, e.User)]; ok {
			p.broken = append(p.broken, "joined twice: "+string(s.Payload))
		}
		p.listed[key(e.ID, e.User)] = e.User + "|" + string(e.Data)
	}
	for _, e := range m.Payload.Changed {
		if old, ok := p.listed[key(e.ID, e.User)]; !ok || old == e.User+"|"+string(e.Data) {
			p.broken = append(p.broken, "not changed: "+string(s.Payload))
		}
		p.listed[key(e.ID, e.User)] = e.User + "|" + string(e.Data)
	}
	for _, e := range m.Payload.Left {
		if _, ok := p.listed[key(e.ID, e.User)]; !ok {
			p.broken = append(p.broken, "was not there: "+string(s.Payload))
		}
		delete(p.listed, key(e.ID, e.User))
	}
	if p.count != len(p.listed) {
		p.broken = append(p.broken, fmt.Sprintf("%d are there: %s", len(p.listed), s.Payload))
	}
}

// byID is what a page that watches members shows of those that are present.
func byID(present map[string]pubsub.Member) map[string]string {
	want := make(map[string]string)
	for id, m := range present {
		want["id "+id] = m.User + "|" + string(m.Data)
	}
	return want
}

// byName is what one that watches users shows: of each that of the connection with the lowest id.
func byName(present map[string]pubsub.Member) map[string]string {
	want := make(map[string]string)
	for _, id := range slices.Sorted(maps.Keys(present)) {
		m := present[id]
		key := "user " + m.User
		if m.User == "" {
			key = "id " + id
		}
		if _, ok := want[key]; !ok {
			want[key] = m.User + "|" + string(m.Data)
		}
	}
	return want
}

func (p *page) check(t *testing.T, want map[string]string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.large && !maps.Equal(p.listed, want) || p.count != len(want) {
		t.Errorf("the page shows %v (%d), want %v", p.listed, p.count, want)
	}
	if len(p.broken) > 0 {
		t.Errorf("frames that make no sense: %q", p.broken)
	}
}

// Whatever joins, changes and leaves, in whatever order and however it is reported, a page shows who is there: by
// member and by user, whenever it came.
func TestPagesShowWhoIsThere(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			s, views := new(source), newViews()
			present := make(map[string]pubsub.Member)
			var pages [2][]*page
			for range 60 {
				if rnd.IntN(8) == 0 || s.report == nil {
					p, by := new(page), rnd.IntN(2)
					v, err := views.Acquire(context.Background(), s, "a")
					if err != nil {
						t.Fatal(err)
					}
					v.Add(p, by == byUser)
					pages[by] = append(pages[by], p)
				}
				var r pubsub.PresenceReport
				for range 1 + rnd.IntN(4) {
					id := fmt.Sprint(rnd.IntN(12))
					if _, ok := present[id]; ok && rnd.IntN(2) == 0 {
						delete(present, id)
						r.Present = slices.DeleteFunc(r.Present, func(m pubsub.Member) bool { return m.ID == id })
						r.Left = append(r.Left, id)
						continue
					}
					m := pubsub.Member{ID: id, User: []string{"", "ann", "bob", "eve"}[rnd.IntN(4)]}
					if n := rnd.IntN(4); n > 0 {
						m.Data = []byte(fmt.Sprint(n))
					}
					present[id] = m
					r.Left = slices.DeleteFunc(r.Left, func(left string) bool { return left == id })
					r.Present = append(slices.DeleteFunc(r.Present, func(m pubsub.Member) bool { return m.ID == id }), m)
				}
				if rnd.IntN(5) == 0 {
					r = pubsub.PresenceReport{Complete: true, Present: slices.Collect(maps.Values(present))}
				}
				s.report(r)
				time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond)
			}
			settle(2 * time.Second)
			for _, p := range pages[byMember] {
				p.check(t, byID(present))
			}
			for _, p := range pages[byUser] {
				p.check(t, byName(present))
			}
			if s.asked != 1 {
				t.Errorf("the presence was asked %d times", s.asked)
			}
		})
	}
}

// Changes of many members come together, the more seldom the more there are, and when they are too many for a list only
// their number comes. A list comes again when they are clearly fewer.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, views, p := new(source), newViews(), new(page)
		v, err := views.Acquire(context.Background(), s, "a")
		if err != nil {
			t.Fatal(err)
		}
		v.Add(p, false)
		present := make(map[string]pubsub.Member)
		join := func(n int) {
			m := pubsub.Member{ID: fmt.Sprint(n)}
			present[m.ID] = m
			s.report(pubsub.PresenceReport{Present: []pubsub.Member{m}})
			time.Sleep(time.Millisecond)
		}
		for n := range 2000 {
			join(n)
		}
		settle(2 * time.Second)
		if p.check(t, byID(present)); !p.large {
			t.Error("2,000 members are listed by name")
		}
		if len(p.times) > 40 { // within 2 s, 20 ms apart at first, then up to 400 ms
			t.Errorf("%d frames came for 2,000 changes", len(p.times))
		}
		leave := func(from, to int) {
			for n := from; n < to; n++ {
				delete(present, fmt.Sprint(n))
				s.report(pubsub.PresenceReport{Left: []string{fmt.Sprint(n)}})
			}
			settle(2 * time.Second)
		}
		leave(0, 1050) // 950 are left
		if p.check(t, byID(present)); !p.large {
			t.Error("the list came back although one more could be too many")
		}
		leave(1050, 1150)
		if p.check(t, byID(present)); p.large {
			t.Error("850 members are not listed")
		}
	})
}

// settle lets time pass, and all that is due then end.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A topic is watched as long as it has watchers: a watcher that has left gets nothing, and with the last the
// presence is not asked any more.
func TestWatchedAsLongAsNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, views := new(source), newViews()
		pages := []*page{new(page), new(page)}
		var held []*View
		for _, p := range pages {
			v, err := views.Acquire(context.Background(), s, "a")
			if err != nil {
				t.Fatal(err)
			}
			v.Add(p, false)
			held = append(held, v)
		}
		held[0].Leave(pages[0])
		s.report(pubsub.PresenceReport{Present: []pubsub.Member{{ID: "1"}}})
		settle(time.Second)
		if len(pages[0].times) != 1 || len(pages[1].times) != 2 || s.closed != 0 {
			t.Errorf("%d and %d frames came; closed %d times", len(pages[0].times), len(pages[1].times), s.closed)
		}
		s.report(pubsub.PresenceReport{Left: []string{"1"}})
		held[1].Leave(pages[1])
		settle(time.Second)
		if len(pages[1].times) != 2 || s.closed != 1 || len(views.m) != 0 {
			t.Errorf("%d frames came; closed %d times; %d views are left", len(pages[1].times), s.closed, len(views.m))
		}
	})
}

// A presence that fails, panics, or does not answer in time is the error of those that wait; the next call asks again.
func TestAPresenceThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, views := new(source), newViews()
		ctx := context.Background()
		s.err = errors.New("not reachable")
		if _, err := views.Acquire(ctx, s, "a"); err != s.err {
			t.Errorf("it failed: %v", err)
		}
		s.err, s.watches = nil, func(context.Context) { panic("broken") }
		if _, err := views.Acquire(ctx, s, "a"); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("it panicked: %v", err)
		}
		var given error
		s.watches = func(ctx context.Context) { <-ctx.Done(); given = ctx.Err() }
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := views.Acquire(short, s, "a"); err != context.DeadlineExceeded {
			t.Errorf("it did not answer: %v", err)
		}
		synctest.Wait()
		if given == nil {
			t.Error("it is still asked although nobody waits")
		}
		s.watches = nil
		v, err := views.Acquire(ctx, s, "a")
		if err != nil || s.asked != 4 {
			t.Errorf("it works again: %v, asked %d times", err, s.asked)
		}
		v.Release()
	})
}
