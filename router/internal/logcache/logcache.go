// Package logcache keeps parts of a topic's log for the clients that resume the topic.
//
// Clients that come back together have missed much the same messages. A [Cache] reads each page of the log at most
// twice for all of them, and keeps its frames contiguous in memory: many leave with one write, and none is copied for a
// client. [Latest] keeps what was delivered last, so that a client catches up with a busy topic. Needed is [Source]: to
// read the log, and to write the frames of messages. Promised: from each position all messages after it, in order, or
// none; the bytes of a topic and of all topics are bounded; a list that was returned never changes. A Cache is for any
// goroutine and holds no lock while the log is read; a Latest is guarded by its topic.
package logcache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/pubsub"
)

const (
	// PageMessages is how many messages a page has. The log is divided at its multiples, so that clients from different
	// positions share what is read.
	PageMessages = 128
	// mostBytes and mostInAll bound the bytes of the pages of a topic, and of all topics.
	mostBytes = 8 << 20
	mostInAll = 64 << 20
	// keep is how long pages are kept after the last client.
	keep = 2 * time.Second
)

// ErrPage is the error for a page that the log cannot have.
var ErrPage = errors.New("router: the broker's Read has returned a page that is not of the log")

// Message is a message of a log, as clients get it.
type Message struct {
	At    pubsub.Position
	Frame []byte // nil: it is no event, and left out

	follows bool // in memory, the frame before it
}

func (m *Message) size() int { return len(m.Frame) + 64 }

// Source is the log of a topic.
type Source struct {
	// Read reads it. It is called for all clients that wait, so it does not end with one of them.
	Read func(pubsub.ReadOptions) (pubsub.Page, error)
	// Frames calls add with the frame of each message, in order; with nil for one that is no event. add copies it.
	Frames func(messages []pubsub.Message, add func(frame []byte))
	// Overhead is how many bytes a frame has at most beyond those of its message.
	Overhead int
	// Total counts the bytes of all topics.
	Total *atomic.Int64
}

// Cache are the pages of a topic's log that clients which resume are sent. Each page is read at most twice: forwards
// from the first client's position, and backwards to its beginning if another client needs that.
type Cache struct {
	source Source

	mu      sync.Mutex
	pages   map[uint64]*page // by offset / PageMessages of the position before their messages
	bytes   int
	clients int
	unused  *time.Timer // drops the pages; nil: there has been no client
}

// Init comes before the other methods.
func (c *Cache) Init(s Source) { c.source = s }

// Acquire keeps pages for a client, until Release.
func (c *Cache) Acquire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients++
}

// Release ends Acquire.
func (c *Cache) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients--; c.clients > 0 {
		return
	}
	if c.unused == nil {
		c.unused = time.AfterFunc(keep, c.dropUnused)
	} else {
		c.unused.Reset(keep)
	}
}

func (c *Cache) dropUnused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients == 0 {
		c.drop()
	}
}

// Drop removes all pages, for a log that begins anew or was changed, or that no client resumes any more. What is being
// read is not kept.
func (c *Cache) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

func (c *Cache) drop() {
	for n, p := range c.pages {
		if p.reading == nil {
			c.forget(n, p)
		} else {
			p.reading.dropped = true
		}
	}
}

func (c *Cache) forget(n uint64, p *page) {
	delete(c.pages, n)
	c.account(p, -p.bytes)
}

func (c *Cache) account(p *page, bytes int) {
	p.bytes += bytes
	c.bytes += bytes
	c.source.Total.Add(int64(bytes))
}

// After returns some messages of the log after a position, or the reason why there are none. Without both, the position
// is the end of the log, or was a moment ago.
func (c *Cache) After(ctx context.Context, at pubsub.Position) (list []Message, lost pubsub.Loss, err error) {
	n := at.Offset / PageMessages
	c.mu.Lock()
	for waited := false; ; waited = true {
		p := c.pages[n]
		if p == nil {
			if c.pages == nil {
				c.pages = make(map[uint64]*page)
			}
			p = &page{from: at}
			c.pages[n] = p
		}
		if list, ok := p.after(at); ok && len(list) > 0 {
			c.mu.Unlock()
			return list, "", nil
		} else if ok && waited && p.reading == nil { // another client has looked
			c.mu.Unlock()
			return nil, "", nil
		}
		if p.reading == nil {
			return c.readPage(n, p, at)
		}
		read := p.reading
		c.mu.Unlock()
		select {
		case <-read.done:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
		if read.err != nil {
			return nil, "", read.err
		}
		c.mu.Lock()
	}
}
