package router_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// pausedLog is a log whose Read of topics that end with paused waits.
type pausedLog struct {
	*faultyLog
	paused chan struct{}
}

func (l *pausedLog) Read(ctx context.Context, topic string, h pubsub.History, o pubsub.ReadOptions) (pubsub.Page, error) {
	if strings.HasSuffix(topic, "paused") && o.Messages > 0 {
		<-l.paused
	}
	return l.faultyLog.Read(ctx, topic, h, o)
}

// Clients that do not read, a hook that waits and a log that does not answer delay no other client that resumes.
func TestResumesThatWaitDelayNoOther(t *testing.T) {
	const missed, queue = 300, 32 << 10
	for _, c := range []struct{ name, topic string }{
		{"clients that do not read", "room:a"}, {"a hook", "room:hook"}, {"the log", "room:paused"}, {"the log, for those too far behind", "few:paused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := make(chan struct{})
			l := &pausedLog{faultyLog: newFaultyLog(), paused: end}
			s := serveSocket(t, router.Options{
				Broker: l, Limits: router.Limits{MaxQueued: queue},
				Resume: router.ResumeOptions{Allow: func(_ *router.Conn, topic string) error {
					if topic == "room:hook" {
						<-end
					}
					return nil
				}},
			}, func(r *router.Router) {
				subscribing(r)
				r.History("room:*", router.HistoryOptions{Bytes: 64 << 20})
				r.History("few:*", router.HistoryOptions{Bytes: 64 << 20, Replay: 3})
			})
			left := func(topic string) *reader {
				p := s.reader(l.faultyLog, topic)
				p.hangUp()
				return p
			}
			waits, goes := left(c.topic), left("room:b")
			for _, topic := range []string{c.topic, "room:b"} {
				for i := range missed {
					if err := s.r.Publish(t.Context(), topic, "heard", said{fmt.Sprint(i) + strings.Repeat(" ", 2000)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			stalled := make([]*peer, 4*runtime.GOMAXPROCS(0))
			for i := range stalled {
				stalled[i] = s.dial()
				_ = stalled[i].nc.SetReadBuffer(4 << 10)
				stalled[i].write(resumption(heldTopic(waits)))
			}
			if c.topic == "room:a" {
				eventually(t, "all of them to be sent something", func() bool {
					for _, p := range stalled {
						if _, err := p.br.Peek(1); err != nil {
							t.Fatal(err)
						}
					}
					return true
				})
			}
			goes.peer = s.dial()
			goes.write(resumption(heldTopic(goes)))
			goes.until(l.head("room:b"))
			if len(goes.texts) != missed {
				t.Errorf("the client got %d messages of %d", len(goes.texts), missed)
			}
			close(end)
			for _, p := range stalled {
				p.hangUp()
			}
			goes.hangUp()
			s.recovered()
		})
	}
}

func heldTopic(p *reader) held { return held{p.ticket, p.at.String()} }
