package presenceview

import (
	"time"

	"github.com/wskit/wskit/router/internal/frame"
)

const (
	byMember = 0
	byUser   = 1
)

// list is what watchers have been sent. It is kept while there are any.
type list struct {
	watchers map[Watcher]struct{}
	shown    map[string]shown // by ID or user
	size     int              // bytes of shown
	dirty    map[string]struct{}
	large    bool   // only the number is sent
	frame    []byte // with all of shown, until it changes
}

// Type is the type of the messages that are sent.
const Type = "$ws:presence"

// shown is an entry as it was sent: an object without its end, and its data.
type shown struct{ head, data string }

func (s shown) size() int { return len(s.head) + len(s.data) + 16 }

const (
	// maxListed is how many entries are sent by name.
	maxListed = 1000
	// What has changed is sent after presencePause, and presencePauseEach for each member
	// more, longestPresencePause at most.
	presencePause        = 20 * time.Millisecond
	presencePauseEach    = 200 * time.Microsecond
	longestPresencePause = time.Second
)

func (s shown) text() string {
	if s.data == "" {
		return s.head + "}"
	}
	return s.head + `,"data":` + s.data + "}"
}

func (l *list) all() []string {
	all := make([]string, 0, len(l.shown))
	for _, s := range l.shown {
		all = append(all, s.text())
	}
	return all
}

// part is a member of the payload: a name, and entries.
type part struct {
	name    string
	entries []string
}

// frame makes a frame of $ws:presence.
func (v *View) frame(l *list, parts ...part) []byte {
	b := frame.New()
	defer b.Free()
	from := b.Len()
	b.WriteString(`{"type":"` + Type + `","payload":{"topic":`)
	b.Text(v.topic)
	b.WriteString(`,"count":`)
	b.Int(int64(len(l.shown)))
	for _, p := range parts {
		if len(p.entries) == 0 && p.name != "members" {
			continue
		}
		b.WriteString(`,"` + p.name + `":[`)
		for i, e := range p.entries {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(e)
		}
		b.WriteByte(']')
	}
	b.WriteString("}}")
	return append([]byte(nil), b.Bytes()[from:]...)
}

func (l *list) remove(w Watcher) {
	if _, ok := l.watchers[w]; !ok {
		return
	}
	if delete(l.watchers, w); len(l.watchers) == 0 {
		*l = list{}
	}
}
