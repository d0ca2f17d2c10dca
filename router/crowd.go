package router

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/frame"
	"github.com/wskit/wskit/router/internal/hub"
)

// crowds are the topics whose presence connections of this process watch.
type crowds struct {
	r  *Router
	mu sync.Mutex
	m  map[string]*crowd
}

// crowd is a topic's presence. It is watched while connections watch it. What a report
// costs does not depend on how many members there are: it marks what has changed, and the
// changes are sent together.
type crowd struct {
	r      *Router
	topic  string
	refs   int                // connections that watch, and calls that are about to; guarded by crowds.mu
	cancel context.CancelFunc // of Watch
	ready  chan struct{}      // closed when Watch has returned; sub and err are set before
	sub    pubsub.Subscription
	err    error

	sending sync.Mutex // orders what is sent to a connection: its list, and the changes behind it

	mu      sync.Mutex
	members map[string]pubsub.Member
	users   map[string]map[string]struct{} // the IDs of each user's members
	views   [2]view                        // by member and by user
	timer   *time.Timer                    // sends the changes; nil: none
	sent    time.Time                      // when they were sent last
	ended   bool
}

const (
	byMember = 0
	byUser   = 1
)

// view is what connections have been sent of a crowd. It is kept while there are any.
type view struct {
	watchers map[*hub.Member]struct{}
	shown    map[string]shown // by ID or user
	size     int              // bytes of shown
	dirty    map[string]struct{}
	large    bool   // only the number is sent
	list     []byte // the frame with all of shown, until it changes
}

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

// acquire finds or makes a crowd, and holds it until it is released as often.
func (cs *crowds) acquire(w pubsub.PresenceWatcher, topic string) *crowd {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cr := cs.m[topic]
	if cr == nil {
		ctx, cancel := context.WithCancel(context.Background())
		cr = &crowd{
			r: cs.r, topic: topic, cancel: cancel, ready: make(chan struct{}), refs: 1, // of begin
			members: make(map[string]pubsub.Member), users: make(map[string]map[string]struct{}),
		}
		cs.m[topic] = cr
		go cs.begin(ctx, cr, w)
	}
	cr.refs++
	return cr
}

// begin begins to watch.
func (cs *crowds) begin(ctx context.Context, cr *crowd, w pubsub.PresenceWatcher) {
	defer cs.release(cr)
	returned := false
	defer func() {
		if !returned {
			cr.err = cs.r.panickedOutside("the presence's Watch", recover())
		}
		if cr.err != nil { // the next call tries again, even if it comes before this has been released
			cs.mu.Lock()
			if cs.m[cr.topic] == cr {
				delete(cs.m, cr.topic)
			}
			cs.mu.Unlock()
		}
		close(cr.ready)
	}()
	cr.sub, cr.err = w.Watch(ctx, cr.topic, cr.report)
	returned = true
}

// release ends the watching with the last hold.
func (cs *crowds) release(cr *crowd) {
	cs.mu.Lock()
	cr.refs--
	refs := cr.refs
	if refs == 0 && cs.m[cr.topic] == cr {
		delete(cs.m, cr.topic)
	}
	cs.mu.Unlock()
	if refs > 0 {
		if refs == 1 {
			cs.cancelUnused(cr)
		}
		return
	}
	cr.cancel()
	cr.mu.Lock()
	cr.ended = true
	if cr.timer != nil {
		cr.timer.Stop()
	}
	cr.mu.Unlock()
	if cr.sub != nil {
		_ = cr.sub.Close()
	}
}

// cancelUnused has begin give up when no call waits for it any more.
func (cs *crowds) cancelUnused(cr *crowd) {
	select {
	case <-cr.ready: // the last hold is a connection's
		return
	default:
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cr.refs == 1 && cs.m[cr.topic] == cr {
		delete(cs.m, cr.topic)
		cr.cancel()
	}
}

// report takes note of what has changed.
func (cr *crowd) report(r pubsub.PresenceReport) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	if r.Complete {
		there := make(map[string]struct{}, len(r.Present))
		for _, m := range r.Present {
			there[m.ID] = struct{}{}
		}
		for id := range cr.members {
			if _, ok := there[id]; !ok {
				cr.forget(id)
			}
		}
	}
	for _, id := range r.Left {
		cr.forget(id)
	}
	for _, m := range r.Present {
		cr.forget(m.ID) // its user may be another one
		cr.members[m.ID] = m
		if m.User != "" {
			if cr.users[m.User] == nil {
				cr.users[m.User] = make(map[string]struct{})
			}
			cr.users[m.User][m.ID] = struct{}{}
		}
		cr.mark(m)
	}
	cr.sendLater()
}

func (cr *crowd) forget(id string) {
	m, ok := cr.members[id]
	if !ok {
		return
	}
	delete(cr.members, id)
	if delete(cr.users[m.User], id); len(cr.users[m.User]) == 0 {
		delete(cr.users, m.User)
	}
	cr.mark(m)
}

func (cr *crowd) mark(m pubsub.Member) {
	for by := range cr.views {
		if v := &cr.views[by]; len(v.watchers) > 0 {
			v.dirty[keyOf(by, m)] = struct{}{}
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
func (cr *crowd) entry(by int, key string) (s shown, ok bool) {
	id, single := strings.CutPrefix(key, "id ")
	if !single {
		for other := range cr.users[strings.TrimPrefix(key, "user ")] {
			if id == "" || other < id {
				id = other
			}
		}
	}
	m, ok := cr.members[id]
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

// sendLater has the changes sent, so long after the last ones that changes of many members
// come together.
func (cr *crowd) sendLater() {
	if cr.timer != nil || cr.ended || len(cr.views[byMember].dirty)+len(cr.views[byUser].dirty) == 0 {
		return
	}
	pause := min(presencePause+time.Duration(len(cr.members))*presencePauseEach, longestPresencePause)
	cr.timer = time.AfterFunc(max(0, pause-time.Since(cr.sent)), cr.send)
}

// send sends the changes to all that watch.
func (cr *crowd) send() {
	cr.sending.Lock()
	defer cr.sending.Unlock()
	cr.mu.Lock()
	cr.timer, cr.sent = nil, time.Now()
	if cr.ended {
		cr.mu.Unlock()
		return
	}
	var frames [len(cr.views)]frame.Shared
	var to [len(cr.views)][]*hub.Peer
	for by := range cr.views {
		v := &cr.views[by]
		if payload := cr.changes(by); payload != nil {
			frames[by] = frame.Share(payload)
			to[by] = make([]*hub.Peer, 0, len(v.watchers))
			for m := range v.watchers {
				to[by] = append(to[by], m.Peer())
			}
		}
	}
	cr.mu.Unlock()
	for by := range to {
		for _, p := range to[by] {
			p.Send(&frames[by], pubsub.Message{})
		}
	}
}

// changes brings a view up to date. It returns the frame with the changes for its watchers, nil
// for nothing.
func (cr *crowd) changes(by int) []byte {
	v := &cr.views[by]
	var joined, changed, left []string
	for key := range v.dirty {
		old, was := v.shown[key]
		now, is := cr.entry(by, key)
		switch {
		case was && is && old == now, !was && !is:
			continue
		case !is:
			delete(v.shown, key)
			v.size -= old.size()
			left = append(left, old.head+"}")
			continue
		case was:
			v.size -= old.size()
			changed = append(changed, now.text())
		default:
			joined = append(joined, now.text())
		}
		v.shown[key] = now
		v.size += now.size()
	}
	clear(v.dirty)
	if len(joined)+len(changed)+len(left) == 0 {
		return nil
	}
	v.list = nil
	was := v.large
	v.large = cr.isLarge(v)
	switch {
	case v.large && len(joined)+len(left) == 0 && was: // the number is the same
		return nil
	case v.large:
		return cr.frame(v)
	case was:
		return cr.frame(v, part{"members", v.all()})
	default:
		return cr.frame(v, part{"joined", joined}, part{"changed", changed}, part{"left", left})
	}
}

// isLarge keeps some distance between becoming large and not being large any more.
func (cr *crowd) isLarge(v *view) bool {
	number, size := maxListed, cr.r.opts.Limits.MaxQueued/2
	if v.large {
		number, size = number*9/10, size*9/10
	}
	return len(v.shown) > number || v.size > size
}

func (s shown) text() string {
	if s.data == "" {
		return s.head + "}"
	}
	return s.head + `,"data":` + s.data + "}"
}

func (v *view) all() []string {
	all := make([]string, 0, len(v.shown))
	for _, s := range v.shown {
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
func (cr *crowd) frame(v *view, parts ...part) []byte {
	b := frame.New()
	defer b.Free()
	from := b.Len()
	b.WriteString(`{"type":"` + typePresence + `","payload":{"topic":`)
	b.Text(cr.topic)
	b.WriteString(`,"count":`)
	b.Int(int64(len(v.shown)))
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

// add has a member get the list, and what changes.
func (cr *crowd) add(m *hub.Member, users bool) {
	by, other := byMember, byUser
	if users {
		by, other = byUser, byMember
	}
	cr.sending.Lock()
	defer cr.sending.Unlock()
	cr.mu.Lock()
	v := &cr.views[by]
	if _, ok := v.watchers[m]; ok {
		cr.mu.Unlock()
		return
	}
	cr.views[other].remove(m)
	if len(v.watchers) == 0 {
		cr.show(by)
	}
	v.watchers[m] = struct{}{}
	if v.list == nil {
		if v.large {
			v.list = cr.frame(v)
		} else {
			v.list = cr.frame(v, part{"members", v.all()})
		}
	}
	list := frame.Share(v.list)
	cr.mu.Unlock()
	m.Peer().Send(&list, pubsub.Message{})
}

// show begins a view.
func (cr *crowd) show(by int) {
	v := &cr.views[by]
	*v = view{watchers: make(map[*hub.Member]struct{}), shown: make(map[string]shown), dirty: make(map[string]struct{})}
	for _, m := range cr.members {
		key := keyOf(by, m)
		if _, ok := v.shown[key]; ok {
			continue
		}
		if s, ok := cr.entry(by, key); ok {
			v.shown[key] = s
			v.size += s.size()
		}
	}
	v.large = cr.isLarge(v)
}

// remove ends it.
func (cr *crowd) remove(m *hub.Member) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	for by := range cr.views {
		cr.views[by].remove(m)
	}
}

// Leave is remove for a member that has left, and releases its hold.
func (cr *crowd) Leave(m *hub.Member) {
	cr.remove(m)
	cr.r.crowds.release(cr)
}

func (v *view) remove(m *hub.Member) {
	if _, ok := v.watchers[m]; !ok {
		return
	}
	if delete(v.watchers, m); len(v.watchers) == 0 {
		*v = view{}
	}
}
