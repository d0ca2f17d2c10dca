package follow

import (
	"testing"

	"github.com/wskit/wskit/pubsub"
)

// What a broker returns that is not of the log is not delivered, and the log is read again.
func TestPagesThatAreNotOfTheLog(t *testing.T) {
	t.Parallel()
	at := func(epoch, offset uint64) pubsub.Position {
		p := pubsub.Position{Epoch: epoch, Offset: offset}
		if offset > 0 {
			p.Tag = 100 + uint32(offset)
		}
		return p
	}
	message := func(p pubsub.Position) pubsub.Message { return pubsub.Message{Position: p} }
	for _, c := range []struct {
		name string
		page pubsub.Page
		ok   bool
	}{
		{"right", pubsub.Page{Head: at(1, 3), Messages: []pubsub.Message{message(at(1, 2)), message(at(1, 3))}}, true},
		{"gap at the beginning", pubsub.Page{Head: at(1, 3), Messages: []pubsub.Message{message(at(1, 3))}}, false},
		{"gap within", pubsub.Page{Head: at(1, 4), Messages: []pubsub.Message{message(at(1, 2)), message(at(1, 4))}}, false},
		{"wrong order", pubsub.Page{Head: at(1, 2), Messages: []pubsub.Message{message(at(1, 3)), message(at(1, 2))}}, false},
		{"another epoch", pubsub.Page{Head: at(2, 2), Messages: []pubsub.Message{message(at(2, 2))}}, false},
		{"without its end", pubsub.Page{Head: at(1, 3), Messages: []pubsub.Message{message(at(1, 2))}}, false},
		{"no messages", pubsub.Page{Head: at(1, 1)}, true},
	} {
		var cursor Cursor
		cursor.Read()
		if _, _, _, ok := cursor.Page(pubsub.Page{Head: at(1, 1)}); !ok {
			t.Fatal("the first page is refused")
		}
		cursor.Lost()
		if _, ok := cursor.Read(); !ok {
			t.Fatal("what was lost is not read")
		}
		deliver, reset, _, ok := cursor.Page(c.page)
		if ok != c.ok || reset != "" || !ok && len(deliver) > 0 {
			t.Errorf("%s: taken: %v, %d are delivered, reset %q", c.name, ok, len(deliver), reset)
		}
		if _, again := cursor.Read(); again == c.ok {
			t.Errorf("%s: read again: %v", c.name, again)
		}
	}
}
