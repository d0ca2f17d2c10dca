// Package linger keeps members of topics listed for a while whose connections were lost: a page that is loaded again is
// neither left nor joined.
//
// Needed is a function that takes a member off the list. Promised: each member is taken off once, when its time is
// over, when its user is back, or at the end; how many are kept is bounded. Methods may be called from any goroutine,
// and wait for nothing.
package linger

import (
	"slices"
	"sync"
	"time"
)

// Most is how many members are kept; further ones are taken off at once.
const Most = 10_000

// Members are those whose connections were lost. Leave is set before the first use.
type Members struct {
	Leave func(topic, id string)

	mu    sync.Mutex
	away  map[place][]*member
	n     int
	ended bool
}

// place is what a user can come back to.
type place struct{ topic, user string }

type member struct {
	id    string
	timer *time.Timer
}

// Keep has a member leave later. user may be empty: then it is not known when it is back.
func (m *Members) Keep(topic, user, id string, lasts time.Duration) {
	m.mu.Lock()
	if m.ended || m.n == Most {
		m.mu.Unlock()
		m.Leave(topic, id)
		return
	}
	defer m.mu.Unlock()
	at, gone := place{topic, user}, &member{id: id}
	gone.timer = time.AfterFunc(lasts, func() { m.over(at, gone) })
	if m.away == nil {
		m.away = make(map[place][]*member)
	}
	m.away[at] = append(m.away[at], gone)
	m.n++
}

// over is called when the time of a member is over.
func (m *Members) over(at place, gone *member) {
	if m.forget(at, gone) {
		m.Leave(at.topic, gone.id)
	}
}

// forget reports false for a member that has left before.
func (m *Members) forget(at place, gone *member) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.away[at]
	i := slices.Index(list, gone)
	if i < 0 {
		return false
	}
	m.n--
	if m.away[at] = slices.Delete(list, i, i+1); len(m.away[at]) == 0 {
		delete(m.away, at)
	}
	return true
}

// Back has those leave whose user is back.
func (m *Members) Back(topic, user string) {
	if user == "" {
		return
	}
	at := place{topic, user}
	m.mu.Lock()
	list := m.away[at]
	delete(m.away, at)
	m.n -= len(list)
	m.mu.Unlock()
	m.leave(at, list)
}

// End has all leave, also those that come.
func (m *Members) End() {
	m.mu.Lock()
	all := m.away
	m.away, m.n, m.ended = nil, 0, true
	m.mu.Unlock()
	for at, list := range all {
		m.leave(at, list)
	}
}

func (m *Members) leave(at place, list []*member) {
	for _, gone := range list {
		gone.timer.Stop()
		m.Leave(at.topic, gone.id)
	}
}
