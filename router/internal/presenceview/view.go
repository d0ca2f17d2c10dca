package presenceview

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
)

// report marks what has changed.
func (v *View) report(r pubsub.PresenceReport) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Complete {
		there := make(map[string]struct{}, len(r.Present))
		for _, m := range r.Present {
			there[m.ID] = struct{}{}
		}
		for id := range v.members {
			if _, ok := there[id]; !ok {
				v.forget(id)
			}
		}
	}
	for _, id := range r.Left {
		v.forget(id)
	}
	for _, m := range r.Present {
		v.forget(m.ID) // its user may be another one
		v.members[m.ID] = m
		if m.User != "" {
			if v.users[m.User] == nil {
				v.users[m.User] = make(map[string]struct{})
			}
			v.users[m.User][m.ID] = struct{}{}
		}
		v.mark(m)
	}
	v.sendLater()
}

func (v *View) forget(id string) {
	m, ok := v.members[id]
	if !ok {
		return
	}
	delete(v.members, id)
	if delete(v.users[m.User], id); len(v.users[m.User]) == 0 {
		delete(v.users, m.User)
	}
	v.mark(m)
}

func (v *View) mark(m pubsub.Member) {
	for by := range v.lists {
		if l := &v.lists[by]; len(l.watchers) > 0 {
			l.dirty[keyOf(by, m)] = struct{}{}
		}
	}
}

// keyOf names the entry of a member in a view.
func keyOf(by int, m pubsub.Member) string {
	if by == byUser && m.User != "" {
		return "user " + m.User
	}
	return "id " + m.ID
}

// entry is an entry as it is now, if it is there.
func (v *View) entry(by int, key string) (s shown, ok bool) {
	id, single := strings.CutPrefix(key, "id ")
	if !single {
		for other := range v.users[strings.TrimPrefix(key, "user ")] {
			if id == "" || other < id {
				id = other
			}
		}
	}
	m, ok := v.members[id]
	if !ok || by == byUser && single != (m.User == "") {
		return shown{}, false
	}
	b := frame.New()
	defer b.Free()
	from := b.Len()
	b.WriteByte('{')
	if by == byMember || single {
		b.WriteString(`"id":`)
		b.Text(m.ID)
	}
	if m.User != "" {
		if by == byMember {
			b.WriteByte(',')
		}
		b.WriteString(`"user":`)
		b.Text(m.User)
	}
	s.head = string(b.Bytes()[from:])
	if jsontext.Value(m.Data).IsValid() { // the data of others may be anything
		s.data = string(m.Data)
	}
	return s, true
}

// sendLater sends the changes later, so long after the last ones that changes of many members
// come together.
func (v *View) sendLater() {
	if v.timer != nil || v.ended || len(v.lists[byMember].dirty)+len(v.lists[byUser].dirty) == 0 {
		return
	}
	pause := min(presencePause+time.Duration(len(v.members))*presencePauseEach, longestPresencePause)
	v.timer = time.AfterFunc(max(0, pause-time.Since(v.sent)), v.send)
}

// send sends the changes to all that watch.
func (v *View) send() {
	v.sending.Lock()
	defer v.sending.Unlock()
	v.mu.Lock()
	v.timer, v.sent = nil, time.Now()
	if v.ended {
		v.mu.Unlock()
		return
	}
	var frames [len(v.lists)]frame.Shared
	var to [len(v.lists)][]Watcher
	for by := range v.lists {
		l := &v.lists[by]
		if payload := v.changes(by); payload != nil {
			frames[by] = frame.Share(payload)
			to[by] = make([]Watcher, 0, len(l.watchers))
			for w := range l.watchers {
				to[by] = append(to[by], w)
			}
		}
	}
	v.mu.Unlock()
	for by := range to {
		for _, w := range to[by] {
			w.Send(&frames[by])
		}
	}
}

// changes brings a view up to date. It returns the frame with the changes for its watchers, nil
// for nothing.
func (v *View) changes(by int) []byte {
	l := &v.lists[by]
	var joined, changed, left []string
	for key := range l.dirty {
		old, was := l.shown[key]
		now, is := v.entry(by, key)
		switch {
		case was && is && old == now, !was && !is:
			continue
		case !is:
			delete(l.shown, key)
			l.size -= old.size()
			left = append(left, old.head+"}")
			continue
		case was:
			l.size -= old.size()
			changed = append(changed, now.text())
		default:
			joined = append(joined, now.text())
		}
		l.shown[key] = now
		l.size += now.size()
	}
	clear(l.dirty)
	if len(joined)+len(changed)+len(left) == 0 {
		return nil
	}
	l.frame = nil
	was := l.large
	l.large = v.isLarge(l)
	switch {
	case l.large && len(joined)+len(left) == 0 && was: // the number is the same
		return nil
	case l.large:
		return v.frame(l)
	case was:
		return v.frame(l, part{"members", l.all()})
	default:
		return v.frame(l, part{"joined", joined}, part{"changed", changed}, part{"left", left})
	}
}

// isLarge keeps some distance between becoming large and not being large any more.
func (v *View) isLarge(l *list) bool {
	number, size := maxListed, v.views.MaxList
	if l.large {
		number, size = number*9/10, size*9/10
	}
	return len(l.shown) > number || l.size > size
}

// Add sends a watcher the list, and then what changes: by user, or by member. It does nothing for one that gets that
// already.
func (v *View) Add(w Watcher, users bool) {
	by, other := byMember, byUser
	if users {
		by, other = byUser, byMember
	}
	v.sending.Lock()
	defer v.sending.Unlock()
	v.mu.Lock()
	l := &v.lists[by]
	if _, ok := l.watchers[w]; ok {
		v.mu.Unlock()
		return
	}
	v.lists[other].remove(w)
	if len(l.watchers) == 0 {
		v.show(by)
	}
	l.watchers[w] = struct{}{}
	if l.frame == nil {
		if l.large {
			l.frame = v.frame(l)
		} else {
			l.frame = v.frame(l, part{"members", l.all()})
		}
	}
	all := frame.Share(l.frame)
	v.mu.Unlock()
	w.Send(&all)
}

// show begins a view.
func (v *View) show(by int) {
	l := &v.lists[by]
	*l = list{watchers: make(map[Watcher]struct{}), shown: make(map[string]shown), dirty: make(map[string]struct{})}
	for _, m := range v.members {
		key := keyOf(by, m)
		if _, ok := l.shown[key]; ok {
			continue
		}
		if s, ok := v.entry(by, key); ok {
			l.shown[key] = s
			l.size += s.size()
		}
	}
	l.large = v.isLarge(l)
}

// Remove ends it.
func (v *View) Remove(w Watcher) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for by := range v.lists {
		v.lists[by].remove(w)
	}
}
