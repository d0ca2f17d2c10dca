package hub

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
)

// What was delivered last, and is kept for clients that resume, does not have a message that was taken back since.
func TestRedactedIsNotAmongTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.NewBroker()
		h := newHub(withHistory(l, 1000))
		o := PublishOptions{History: h.HistoryOf("a")}
		for i := range 5 * atOnce {
			mustPublish(t, h, event("a", i), o)
		}
		page, err := l.Read(t.Context(), "a", o.History.Kept, pubsub.ReadOptions{Messages: 1, Bytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		far, near := newClient(t, h), newClient(t, h)
		goOn := make(chan struct{})
		far.mayReplay = func() { <-goOn }
		returned := make(chan error, 1)
		go func() { returned <- far.SubscribeFrom(t.Context(), "a", page.Messages[0].Position, Terms{}) }()
		synctest.Wait()
		before := end(t, l)
		mustPublish(t, h, event("a", 777), o)
		at := end(t, l)
		redacted := RedactedEvent("a", at.String(), nil)
		if ok, err := l.Replace(t.Context(), "a", at, Appendable("a", redacted)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		mustPublish(t, h, pubsub.Message{Topic: "a", Frame: redacted}, o)
		mustPublish(t, h, event("a", 778), o)
		if err := near.SubscribeFrom(t.Context(), "a", before, Terms{}); err != nil {
			t.Error(err)
		}
		if got := strings.Join(near.types(), " "); got != "$ws:subscribed $ws:redacted $ws:redacted n" {
			t.Errorf("a client gets %s", got)
		}
		close(goOn)
		if err := <-returned; err != nil {
			t.Error(err)
		}
	})
}
