package router_test

import (
	"testing"

	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// A client that is unsubscribed from a topic with history gets $ws:unsubscribed, once and behind the messages that it
// got as a member. Otherwise it would resume the topic after a reconnect.
func TestUnsubscribedIsSent(t *testing.T) {
	t.Parallel()
	l := newFaultyLog()
	s := withHistory(t, l, router.Options{}, router.HistoryOptions{})
	p := s.reader(l, "room:a")
	s.appends(0, 3)
	p.until(l.head("room:a"))
	leave := textFrame(`{"type":"leave","meta":{"correlationId":"1"},"payload":{"text":"room:a"}}`)
	p.write(leave)
	if got := p.step(); got != "$ws:unsubscribed" {
		t.Fatalf("leaving sends %s", got)
	}
	if got := p.step(); got != "leave.reply" {
		t.Fatalf("leaving is answered %s", got)
	}
	// It is not sent to a client that is no member.
	p.write(leave)
	if got := p.step(); got != "leave.reply" {
		t.Errorf("leaving again sends %s", got)
	}
	p.at, p.ticket = pubsub.Position{}, ""
	p.write(join1("room:a"))
	if first, second := p.step(), p.step(); first != "$ws:subscribed" || second != "join.reply" {
		t.Errorf("joining again sends %s, then %s", first, second)
	}
	p.hangUp()
	s.recovered()
}

// A topic without a history has nothing to resume.
func TestUnsubscribedIsNotSentWithoutHistory(t *testing.T) {
	t.Parallel()
	s := withHistory(t, newFaultyLog(), router.Options{}, router.HistoryOptions{})
	p := s.dial()
	p.write(join1("hall"))
	p.expect("reply j hall")
	p.write(textFrame(`{"type":"leave","meta":{"correlationId":"1"},"payload":{"text":"hall"}}`))
	p.expect("reply 1 hall")
	p.hangUp()
	s.recovered()
}
