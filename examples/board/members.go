package main

import (
	"context"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// maxAsked is how many members are asked before a board is cleared.
const maxAsked = 8

// confirmTime is how long they have.
const confirmTime = 15 * time.Second

type (
	// Confirm asks a member whether another one may clear the board.
	Confirm struct {
		Name string `json:"name"` // of the member that wants to
	}
	Confirmed struct {
		Yes bool `json:"yes"`
	}
	// Asking is the progress of board.clear.
	Asking struct {
		Asked    int `json:"asked"`
		Answered int `json:"answered"`
	}
	// Outcome says whether the board was cleared.
	Outcome struct {
		Cleared bool `json:"cleared"`
		// RefusedBy is the name of the member that has refused.
		RefusedBy string `json:"refusedBy,omitzero"`
	}
)

// hues are the colours of members, in degrees.
var hues = []int{25, 250, 145, 320, 75, 195, 285, 110, 350, 225, 50, 170}

type member struct {
	place
	hue int
}

// members has the connections on this server that have joined a board. It is safe for concurrent use.
type members struct {
	mu     sync.Mutex
	boards map[string]map[*router.Conn]member
	of     map[*router.Conn]string
}

func newMembers() members {
	return members{boards: make(map[string]map[*router.Conn]member), of: make(map[*router.Conn]string)}
}

// add notes where a connection is, and returns its colour: one that no other member of the board has, while there are
// enough.
func (m *members) add(c *router.Conn, at place) (hue int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hue = m.boards[m.of[c]][c].hue
	moved := m.of[c] != at.board
	m.drop(c)
	if moved {
		hue = m.freeHue(c, at.board)
	}
	if c.Context().Err() != nil {
		return hue // it has ended, and remove may have been called
	}
	if m.boards[at.board] == nil {
		m.boards[at.board] = make(map[*router.Conn]member)
	}
	m.boards[at.board][c] = member{at, hue}
	m.of[c] = at.board
	return hue
}

func (m *members) freeHue(c *router.Conn, board string) int {
	taken := make(map[int]bool)
	for o, other := range m.boards[board] {
		if o.Identity().User == c.Identity().User {
			return other.hue // the connection before this one
		}
		taken[other.hue] = true
	}
	for _, hue := range hues {
		if !taken[hue] {
			return hue
		}
	}
	return hues[len(m.boards[board])%len(hues)]
}

func (m *members) remove(c *router.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(c)
}

func (m *members) drop(c *router.Conn) {
	board := m.of[c]
	delete(m.of, c)
	delete(m.boards[board], c)
	if len(m.boards[board]) == 0 {
		delete(m.boards, board)
	}
}

// others returns up to n other connections on the board, with their names.
func (m *members) others(c *router.Conn, board string, n int) map[*router.Conn]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := make(map[*router.Conn]string)
	for o, other := range m.boards[board] {
		if o.Identity().User != c.Identity().User && len(others) < n {
			others[o] = other.name
		}
	}
	return others
}

// clear clears the board if no other member refuses. Up to maxAsked members on this server are asked; one
// that does not answer in confirmTime, a page that sleeps for example, does not refuse. If the connection of one
// ends, the board stays as it is: the server may be shutting down.
func (b *Boards) clear(c *router.Context, _ struct{}) (Outcome, error) {
	at, err := on(c)
	if err != nil {
		return Outcome{}, err
	}
	others := b.members.others(c.Conn(), at.board, maxAsked)
	ctx, cancel := context.WithCancel(c) // the first refusal withdraws the other questions
	defer cancel()
	type vote struct {
		name string // of one that refuses
		err  error
	}
	votes := make(chan vote, len(others))
	for o, name := range others {
		go func() {
			answer, err := b.confirm.Ask(ctx, o, Confirm{Name: at.name})
			switch {
			case errors.CodeOf(err) == errors.DeadlineExceeded:
				votes <- vote{}
			case err != nil:
				votes <- vote{err: errors.Unavailable.New(name + " has not answered")}
			case answer.Yes:
				votes <- vote{}
			default:
				votes <- vote{name: name}
			}
		}()
	}
	for i := range len(others) {
		if err := c.Progress(Asking{len(others), i}); err != nil {
			return Outcome{}, err
		}
		if v := <-votes; v.name != "" || v.err != nil {
			return Outcome{RefusedBy: v.name}, v.err
		}
	}
	if err := c.Err(); err != nil { // the one that asked has left, or has aborted
		return Outcome{}, err
	}
	return Outcome{Cleared: true}, b.cleared.Publish(c, topicOf(at.board), Cleared{c.Identity.User, at.name})
}
