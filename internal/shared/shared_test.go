package shared_test

import (
	"strings"
	"testing"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/shared"
	"github.com/wskit/wskit/pubsub"
)

func TestOf(t *testing.T) {
	presence := memory.NewPresence()
	of := func(b adapters.Backend) (shared.Backend, string) {
		s, err := shared.Of("run", b)
		if err != nil {
			return s, err.Error()
		}
		return s, ""
	}
	if s, text := of(adapters.Backend{Presence: presence}); text != "" || s.Log == nil || s.Limits == nil || s.Presence == nil {
		t.Errorf("of one process: %+v, %q; want what is left out in memory", s, text)
	}
	_, text := of(adapters.Backend{Presence: presence, Shared: true})
	if !strings.HasPrefix(text, "run: ") || !strings.Contains(text, "the Broker <nil>") || !strings.Contains(text, "; use ") {
		t.Errorf("of several processes, without a broker: %q", text)
	}
	if _, text := of(adapters.Backend{Presence: presence, Broker: noLog{memory.NewBroker()}}); !strings.Contains(text, "noLog") {
		t.Errorf("with a broker that keeps no log: %q", text)
	}
}

// noLog is a broker without history.
type noLog struct{ pubsub.Broker }
