package router_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// A history is read in pages, in both directions, from any position.
func TestReadHistory(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{}, router.HistoryOptions{})
	read := func(q router.HistoryQuery) (texts []string, p router.HistoryPage) {
		t.Helper()
		p, err := s.r.ReadHistory(context.Background(), "room:a", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Messages {
			texts = append(texts, m.Type+string(m.Payload))
		}
		return texts, p
	}
	if got, p := read(router.HistoryQuery{}); len(got) != 0 || p.More || p.Head != l.head("room:a").String() {
		t.Errorf("an empty history is %v, %+v", got, p)
	}
	const n = 130
	s.appends(0, n)
	if _, err := l.Append(context.Background(), pubsub.Message{Topic: "room:a", Frame: []byte("bad")}, pubsub.History{Messages: 1000}, ""); err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`heard{"text":"%d"}`, i))
	}
	for _, backwards := range []bool{false, true} {
		for _, limit := range []int{0, 7, 130, 1000} {
			var got []string
			q := router.HistoryQuery{Backwards: backwards, Limit: limit}
			for more := true; more; {
				var texts []string
				var p router.HistoryPage
				texts, p = read(q)
				if more = p.More; len(p.Messages) == 0 {
					break
				}
				if backwards {
					got, q.From = append(texts, got...), p.Messages[0].Pos
				} else {
					got, q.From = append(got, texts...), p.Messages[len(p.Messages)-1].Pos
				}
			}
			if !slices.Equal(got, all) {
				t.Errorf("backwards %v, by %d: %v", backwards, limit, got)
			}
		}
	}
	_, first := read(router.HistoryQuery{Limit: 1})
	l.wipe("room:a")
	if _, p := read(router.HistoryQuery{From: first.Head}); p.Lost != "epoch" {
		t.Errorf("a position of a lost log: %+v", p)
	}
	for _, c := range []struct {
		topic string
		q     router.HistoryQuery
		code  errors.Code
	}{
		{"room:a", router.HistoryQuery{From: "x"}, errors.InvalidArgument},
		{"room:a", router.HistoryQuery{Limit: 1001}, errors.InvalidArgument},
		{"", router.HistoryQuery{}, errors.InvalidArgument},
		{"hall", router.HistoryQuery{}, errors.Internal},
	} {
		if _, err := s.r.ReadHistory(context.Background(), c.topic, c.q); errors.CodeOf(err) != c.code {
			t.Errorf("%+v of %q: %v", c.q, c.topic, err)
		}
	}
	l.failing(errors.New("no connection"))
	if _, err := s.r.ReadHistory(context.Background(), "room:a", router.HistoryQuery{}); errors.CodeOf(err) != errors.Unavailable {
		t.Errorf("a broker that fails: %v", err)
	}
	l.failing(nil)
}

// A client that comes late gets what was published before it, and then what comes.
func TestSubscribeFrom(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: l}}, func(r *router.Router) {
		r.History("room:*")
		router.RPC(r, "from", func(c *router.Context, pos said) (said, error) { return pos, c.SubscribeFrom("room:a", pos.Text) })
	})
	s.appends(0, 200)
	middle := l.head("room:a")
	s.appends(200, 100)
	from := func(pos string, want int) *reader {
		t.Helper()
		p := &reader{peer: s.dial(), log: l, topic: "room:a"}
		p.write(textFrame(`{"type":"from","meta":{"correlationId":"1"},"payload":{"text":"` + pos + `"}}`))
		if got := p.step(); got != "$ws:subscribed" || p.ticket == "" {
			t.Errorf("from %q: %s", pos, got)
		}
		for got := ""; got != "from.reply"; {
			if got = p.step(); strings.HasPrefix(got, "$ws:reset") != (want < 0) && got != "from.reply" && got != "message" {
				t.Errorf("from %q: %s", pos, got)
			}
		}
		if want >= 0 && len(p.texts) != want {
			t.Errorf("from %q: %d messages", pos, len(p.texts))
		}
		return p
	}
	clients := []*reader{from("", 300), from(middle.String(), 100), from(l.head("room:a").String(), 0), from(pubsub.Position{Epoch: 99}.String(), -1)}
	s.appends(300, 1)
	for _, p := range clients {
		p.until(l.head("room:a"))
		p.write(textFrame(`{"type":"from","meta":{"correlationId":"2"},"payload":{"text":""}}`))
		p.expect("RPC_ERROR 2 FAILED_PRECONDITION")
		p.hangUp()
	}
	p := s.dial()
	p.write(textFrame(`{"type":"from","meta":{"correlationId":"3"},"payload":{"text":"x"}}`))
	p.expect("RPC_ERROR 3 INVALID_ARGUMENT")
	p.hangUp()
	s.recovered()
}

// What the broker reports as lost reaches the application and the members, together.
func TestLossesAreReported(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	lost := make(chan []string, 10)
	s := withHistory(t, l, router.Options{SendGaps: true, OnLost: func(topics []string) {
		lost <- topics
		panic("a hook that panics")
	}, OnError: func(router.Fault) {}}, router.HistoryOptions{})
	a, b, none := s.dial(), s.dial(), s.dial()
	a.write(join1("hall"), join1("stairs"), join1("room:a"))
	for range 4 {
		a.next()
	}
	b.write(join1("stairs"), join1("roof"))
	b.expect("reply j stairs", "reply j roof")
	none.write(join1("roof"))
	none.expect("reply j roof")
	for range 2 { // the second time after a panic
		for _, topic := range []string{"stairs", "hall", "room:a", "stairs"} {
			l.inject(pubsub.Message{Topic: topic, Lost: true})
		}
		if got := poll.Receive(t, lost, "the hook is called"); !slices.Equal(got, []string{"hall", "stairs"}) {
			t.Errorf("the hook gets %v", got)
		}
		a.expect(`$ws:gap {"topics":["hall","stairs"]}`)
		b.expect(`$ws:gap {"topics":["stairs"]}`)
	}
	none.write(echo("1", "nothing"))
	none.expect("reply 1 nothing")
	for _, p := range []*peer{a, b, none} {
		p.hangUp()
	}
	s.recovered()
}
