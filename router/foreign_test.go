package router_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
)

// What others publish at the broker's server reaches no client unless it is
// an event, and closes no connection.
func TestMessagesThatNoRouterMadeAreDropped(t *testing.T) {
	t.Parallel()
	broker := &stage{}
	var log bytes.Buffer
	s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: broker}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Limits: router.Limits{MaxQueued: 64 << 10}}, subscribing)
	p := s.dial()
	p.write(join1("room"))
	p.expect("reply j room")
	foreign := []string{
		"", "no JSON", `[]`, `{}`, `{"type":7}`, `{"type":"x","type":"y"}`, `{"type":"x"} {}`, "{\"type\":\"x\",\"payload\":\"\xff\"}",
		`{"type":"RPC_ERROR","meta":{"correlationId":"1"},"payload":{}}`, `{"type":"ERROR"}`, `{"type":"__heartbeat"}`, `{"type":"$ws:abort"}`,
		`{"type":"reply","meta":{"correlationId":"1"}}`,
		`{"type":"x","payload":"` + strings.Repeat("x", 2<<20) + `"}`, `{"type":"x","payload":"` + strings.Repeat("x", 64<<10) + `"}`,
	}
	for _, frame := range foreign {
		broker.deliver(pubsub.Message{Topic: "room", Frame: []byte(frame)})
	}
	broker.deliver(heard("an event", false))
	p.expect(`heard {"text":"an event"}`)
	p.bye()
	if n := s.r.Stats().Foreign; n != int64(len(foreign)) {
		t.Errorf("%d are counted, %d were delivered", n, len(foreign))
	}
	if n := strings.Count(log.String(), "was dropped"); n != 1 {
		t.Errorf("it is logged %d times:\n%.500s", n, log.String())
	}
}

// A message that fits no queue fails where it is published.
func TestPublishingWhatFitsNoQueueFails(t *testing.T) {
	t.Parallel()
	for _, broker := range []pubsub.Broker{nil, &stage{}} {
		s := serveSocket(t, router.Options{Backend: adapters.Backend{Broker: broker}, Limits: router.Limits{MaxQueued: 64 << 10}}, subscribing)
		p := s.dial()
		p.write(join1("room"))
		p.expect("reply j room")
		if err := s.r.Publish(t.Context(), "room", "x", strings.Repeat("x", 70<<10)); err == nil || !strings.Contains(err.Error(), "MaxQueued") {
			t.Errorf("Publish: %v", err)
		}
		p.write(join1("other"))
		p.expect("reply j other")
		p.bye()
	}
}
