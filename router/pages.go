package router

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
)

// pages are the parts of a topic's log that clients which resume are sent. The log is divided at
// multiples of pageMessages, so that clients from different positions share what is read: each
// page is read at most twice, forwards from the first client's position, and backwards to its beginning
// if another client needs that.
type pages struct {
	mu    sync.Mutex
	m     map[uint64]*page // by offset / pageMessages of the position before their messages
	bytes int
	total *atomic.Int64 // bytes of all topics
}

const (
	// maxPages and maxAllPages bound the bytes of the pages of a topic, and of all topics.
	maxPages    = 8 << 20
	maxAllPages = 64 << 20
	// keepPages is how long they are kept after the last client.
	keepPages = 2 * time.Second
)

// page is a run of messages of one page.
type page struct {
	from     pubsub.Position // before the first message
	messages []logged
	bytes    int
	reading  *pageRead // nil: none is under way
}

type pageRead struct {
	done chan struct{} // closed when it has ended
	err  error         // set before that
}

// logged is a message of a log, as clients get it.
type logged struct {
	at    pubsub.Position
	frame []byte // nil: it is no event, and left out
}

func (l *logged) size() int { return len(l.frame) + 64 }

// behind returns the messages behind a position. ok is false if the page does not have the position.
func (p *page) behind(at pubsub.Position) (list []logged, ok bool) {
	if at == p.from {
		return p.messages, true
	}
	i := at.Offset - p.from.Offset - 1
	if at.Offset <= p.from.Offset || i >= uint64(len(p.messages)) || p.messages[i].at != at {
		return nil, false
	}
	return p.messages[i+1:], true
}

func (p *page) last() pubsub.Position {
	if n := len(p.messages); n > 0 {
		return p.messages[n-1].at
	}
	return p.from
}

// drop removes all pages.
func (ps *pages) drop() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for n, p := range ps.m {
		if p.reading == nil {
			ps.forget(n, p)
		}
	}
}

func (ps *pages) forget(n uint64, p *page) {
	delete(ps.m, n)
	ps.account(p, -p.bytes)
}

func (ps *pages) account(p *page, bytes int) {
	p.bytes += bytes
	ps.bytes += bytes
	ps.total.Add(int64(bytes))
}

// behind returns messages of the log behind a position, as few as are there, or the reason
// why there are none. Without both, the position is the end of the log, or was a moment ago.
func (in *subscription) behind(ctx context.Context, at pubsub.Position) (list []logged, lost pubsub.Loss, err error) {
	ps := &in.log.pages
	n := at.Offset / pageMessages
	ps.mu.Lock()
	for waited := false; ; waited = true {
		p := ps.m[n]
		if p == nil {
			if ps.m == nil {
				ps.m = make(map[uint64]*page)
			}
			p = &page{from: at}
			ps.m[n] = p
		}
		if list, ok := p.behind(at); ok && len(list) > 0 {
			ps.mu.Unlock()
			return list, "", nil
		} else if ok && waited && p.reading == nil { // another has looked
			ps.mu.Unlock()
			return nil, "", nil
		}
		if p.reading == nil {
			return in.readPage(n, p, at)
		}
		read := p.reading
		ps.mu.Unlock()
		select {
		case <-read.done:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
		if read.err != nil {
			return nil, "", read.err
		}
		ps.mu.Lock()
	}
}

// readPage reads what a page does not have of the messages behind a position. The pages are
// locked, and not when it returns.
func (in *subscription) readPage(n uint64, p *page, at pubsub.Position) (list []logged, lost pubsub.Loss, err error) {
	ps := &in.log.pages
	read := &pageRead{done: make(chan struct{})}
	p.reading = read
	first := uint64(n * pageMessages) // the offset before the page
	last := p.last()
	ps.mu.Unlock()

	var peeker envelope.Peeker
	var run page
	found := false
	if len(p.messages) > 0 && at.Epoch == last.Epoch && at.Offset < last.Offset && last.Offset > first+1 {
		// The position is before the messages that are there.
		run, lost, err = in.readRun(&peeker, pubsub.ReadOptions{From: last, Backwards: true, Messages: int(last.Offset - first - 1)})
		if run.last().Offset+1 == last.Offset {
			run.messages = append(run.messages, p.messages[len(p.messages)-1])
			list, found = run.behind(at)
		}
	}
	if err == nil && !found {
		run, lost, err = in.readRun(&peeker, pubsub.ReadOptions{From: at, Messages: int(first + pageMessages - at.Offset)})
		list = run.messages
		if last == at {
			run.from = p.from
			if len(p.messages) > 0 {
				run.messages = append(p.messages[:len(p.messages):len(p.messages)], list...)
			}
		}
	}

	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.reading, read.err = nil, err
	close(read.done)
	if err != nil || lost != "" {
		if len(p.messages) == 0 {
			delete(ps.m, n)
		}
		return nil, lost, err
	}
	size := 0
	for i := range run.messages {
		size += run.messages[i].size()
	}
	ps.account(p, size-p.bytes)
	p.from, p.messages = run.from, run.messages
	if ps.bytes > maxPages || ps.total.Load() > maxAllPages {
		for other, o := range ps.m {
			if o.reading == nil && (o != p || ps.bytes > maxPages || ps.total.Load() > maxAllPages) {
				ps.forget(other, o)
			}
		}
	}
	return list, "", nil
}

// readRun reads messages of the log, of one page. The read is for all clients that wait for it, so
// it does not end with one of them.
func (in *subscription) readRun(peeker *envelope.Peeker, o pubsub.ReadOptions) (run page, lost pubsub.Loss, err error) {
	run.from = o.From
	o.Bytes = maxPages / 8
	read, err := in.router.readLog(in.log.ctx, in.topic.name, in.log.history, o)
	if err != nil {
		in.router.reader.Failed(err, "topic", in.topic.name)
		return run, "", err
	}
	in.router.reader.Works()
	if read.Lost != "" {
		return run, read.Lost, nil
	}
	if o.Backwards && len(read.Messages) > 0 {
		run.from = positionBefore(&read.Messages[0])
	}
	var foreign error
	var runs frameRuns
	largest := 0
	for i := range read.Messages {
		room := frameRoom(&read.Messages[i])
		runs.left += room
		largest = max(largest, room)
	}
	scratch := make([]byte, 0, largest)
	run.messages = make([]logged, 0, len(read.Messages))
	for i := range read.Messages {
		m := &read.Messages[i]
		if m.Position.Offset != run.from.Offset+uint64(i)+1 {
			return run, "", errPage
		}
		l := logged{at: m.Position}
		if frame, err := in.router.positioned(scratch, peeker, in.log.prefix, m); err == nil {
			l.frame = runs.add(frame.plain)
		} else {
			foreign = err
		}
		run.messages = append(run.messages, l)
	}
	if foreign != nil {
		in.router.refuseForeign(in.topic.name, foreign)
	}
	return run, "", nil
}
