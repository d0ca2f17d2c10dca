package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/pubsub"
)

var errReply = errors.New("the script of logs replied something else than it should")

// logKind is what the keys of logs are called by.
const logKind = "log"

const (
	// What one run of the script reads at most, so that it does not keep the server from others.
	readMessages = 1000
	readBytes    = 1 << 20
	// headsAtOnce is how many logs one run of the script looks at.
	headsAtOnce = 100
)

// Append implements [pubsub.Log]. It fails as Publish does, and when Redis refuses to write
// ("OOM", "READONLY"). After a timeout the message may be in the log; repeat the call with the
// same id to find out.
//
// A nil error means that the server has it. A server that crashes before it has written it to disk,
// and a replica that takes over before it has it, lose it: subscribers find that by the
// positions, but nothing brings it back.
func (b *broker) Append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	at, err := b.append(ctx, m, h, id)
	if err != nil {
		b.stats.failed.Add(1)
	}
	return at, err
}

func (b *broker) append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	if err := b.check(m); err != nil {
		return pubsub.Position{}, err
	}
	if err := h.Check(); err != nil {
		return pubsub.Position{}, err
	}
	if len(id) > pubsub.MaxIDLength {
		return pubsub.Position{}, fmt.Errorf("redis: the id has %d bytes, at most %d are allowed", len(id), pubsub.MaxIDLength)
	}
	m.Position = pubsub.Position{Tag: newTag()}
	o, item, err := b.item(ctx, m)
	if err == nil {
		p := &item.Value
		p.history, p.id, p.bytes, p.at = h, id, len(m.Frame), m.Position
		err = through(ctx, o, o.lane, item)
	}
	b.report(ctx, &b.publishing, err)
	if err != nil {
		return pubsub.Position{}, fmt.Errorf("redis: appending: %w", err)
	}
	at := item.Value.at
	o.lane.Free(item)
	return at, nil
}

func (b *broker) logKey(topic string) string { return key(b.opts.Prefix, logKind, topic) }

// A logCall is one run of the script of logs that reads.
type logCall struct {
	keys  []string
	args  []any
	reply []any
	err   error
}

// readTrip runs the scripts of a batch of calls.
func (b *broker) readTrip(ctx context.Context, o *outlet, server any, items []*batch.Item[[]*logCall]) {
	start := time.Now()
	var commands []goredis.Cmder
	for _, it := range items {
		for _, c := range it.Value {
			args := append(make([]any, 0, 3+len(c.keys)+len(c.args)), "evalsha", logScriptID, len(c.keys))
			for _, k := range c.keys {
				args = append(args, k)
			}
			commands = append(commands, once{goredis.NewCmd(ctx, append(args, c.args...)...)})
		}
	}
	b.runScripts(ctx, server, commands)
	answered, next := false, 0
	for _, it := range items {
		for _, c := range it.Value {
			c.reply, c.err = commands[next].(once).Slice()
			answered = answered || isAnswer(c.err)
			it.Err = errors.Join(it.Err, c.err)
			next++
		}
	}
	if answered {
		b.evictions.look(server)
	}
	conclude(ctx, o, items, start, answered)
}

// Read implements [pubsub.Log]. It fails when Redis does not answer within BrokerOptions.Timeout, and
// with [pubsub.ErrClosed]. A page of more than 1,000 messages or 1 MiB takes several round trips.
//
// A message in the log that no Broker with the same options has written ends a page; a page that would
// begin with it is [pubsub.LossTrimmed].
func (b *broker) Read(ctx context.Context, topic string, h pubsub.History, r pubsub.ReadOptions) (page pubsub.Page, err error) {
	if b.ctx.Err() != nil {
		return page, pubsub.ErrClosed
	}
	if err := errors.Join(checkTopic(topic), h.Check()); err != nil {
		return page, err
	}
	logKey := b.logKey(topic)
	err = b.hand(ctx, &b.reading, logKey, func(ctx context.Context, o *outlet) error {
		page, err = b.readPages(ctx, o, topic, logKey, h, r)
		return err
	})
	if err != nil {
		return pubsub.Page{}, fmt.Errorf("redis: reading a log: %w", err)
	}
	return page, nil
}

// Replace implements [pubsub.Replacer]. It fails as Read does, and when Redis refuses to write. After a timeout the
// message may be replaced; replacing it again does no harm.
func (b *broker) Replace(ctx context.Context, topic string, at pubsub.Position, frame []byte) (replaced bool, err error) {
	m := pubsub.Message{Topic: topic, Frame: frame, Position: at}
	switch err := b.check(m); {
	case b.ctx.Err() != nil:
		return false, pubsub.ErrClosed
	case err != nil:
		return false, err
	case at.Tag == 0: // the place before the first message
		return false, nil
	}
	plain := seal(b.opts.Keys).close(key(b.opts.Prefix, b.kind, topic), appendPlain(nil, m))
	logKey := b.logKey(topic)
	call := &logCall{keys: []string{logKey}, args: []any{
		"replace", at.Epoch, at.Offset, uint64(at.Tag), len(frame), appendWithLength(nil, plain),
	}}
	err = b.hand(ctx, &b.publishing, logKey, func(ctx context.Context, o *outlet) error { return o.read(ctx, []*logCall{call}) })
	if err != nil {
		return false, fmt.Errorf("redis: replacing a message of a log: %w", err)
	}
	return len(call.reply) == 1 && call.reply[0] == int64(1), nil
}

// readPages puts a page together from what the script reads at once.
func (b *broker) readPages(ctx context.Context, o *outlet, topic, logKey string, h pubsub.History, r pubsub.ReadOptions) (page pubsub.Page, err error) {
	for first := true; ; first = false {
		part, err := b.readPart(ctx, o, topic, logKey, h, r, first)
		switch {
		case err != nil:
			return page, err
		case first:
			page = part
		case part.Lost != pubsub.LossNone: // since the part before
			return page, nil
		case r.Backwards:
			page.Messages, page.More = append(part.Messages, page.Messages...), part.More
		default:
			page.Messages, page.Head, page.More = append(page.Messages, part.Messages...), part.Head, part.More
		}
		n := len(part.Messages)
		if !part.More || n == 0 {
			return page, nil
		}
		r.Messages -= n
		for _, m := range part.Messages {
			r.Bytes -= len(m.Frame)
		}
		r.From = part.Messages[n-1].Position
		if r.Backwards {
			r.From = part.Messages[0].Position
		}
		if r.Messages <= 0 || r.Bytes < 0 {
			return page, nil
		}
	}
}

// readPart runs the script once. The first message of a page may have any size.
func (b *broker) readPart(ctx context.Context, o *outlet, topic, logKey string, h pubsub.History, r pubsub.ReadOptions, first bool) (page pubsub.Page, err error) {
	largest, backwards := r.Bytes, 0
	if first {
		largest = math.MaxInt
	}
	if r.Backwards {
		backwards = 1
	}
	calls := []*logCall{{keys: []string{logKey}, args: []any{
		"read", newEpoch(), h.Age.Milliseconds(), r.From.Epoch, r.From.Offset, uint64(r.From.Tag), backwards,
		min(r.Messages, readMessages), min(r.Bytes, readBytes), largest,
	}}}
	if err := o.read(ctx, calls); err != nil {
		return page, err
	}
	reply := calls[0].reply
	if len(reply)%3 != 0 || len(reply) < 6 {
		return page, errReply
	}
	var ok bool
	if page.Head, ok = positionOf(reply); !ok {
		return page, errReply
	}
	lost, _ := reply[3].(string)
	if page.Lost = pubsub.Loss(lost); lost != "" {
		return page, nil
	}
	more, _ := reply[4].(int64)
	page.More = more == 1
	from := reader{seal: b.opts.Keys, channel: key(b.opts.Prefix, b.kind, topic), topic: topic, maxFrame: b.opts.MaxFrame}
	foreign, ok := from.page(&page, reply[5:], r.Backwards)
	switch {
	case !ok:
		return page, errReply
	case foreign > 0:
		b.ignored(topic, foreign)
		if page.More = true; len(page.Messages) == 0 {
			page.More, page.Lost = false, pubsub.LossTrimmed
		}
	}
	return page, nil
}

// page adds the messages of a reply to a page that has the head: the offset of the first, and of each part of
// a bundle, in order, the number of its messages, the tag before them, and the messages. A page ends at a
// message that is not one of ours; foreign is the size of the part that has it.
func (r *reader) page(page *pubsub.Page, reply []any, backwards bool) (foreign int, ok bool) {
	first, _ := reply[0].(string)
	at, ok := parsePosition(strconv.FormatUint(page.Head.Epoch, 10), first, "0")
	for parts := reply[1:]; ok && len(parts) > 0; parts = parts[3:] {
		count, _ := parts[0].(int64)
		tag, _ := parts[1].(string)
		text, _ := parts[2].(string)
		var before pubsub.Position
		if before, ok = parsePosition("0", "0", tag); !ok {
			break
		}
		messages, whole := r.part(text, int(count), at, before.Tag)
		at.Offset += uint64(count)
		if !whole {
			foreign = max(1, len(text))
		}
		switch {
		case whole:
			page.Messages = append(page.Messages, messages...)
		case backwards:
			page.Messages = nil
		default:
			page.Messages = append(page.Messages, messages...)
			return foreign, true
		}
	}
	return foreign, ok
}

// part reads so many messages, the first of which has the offset at. It ends at one that is not ours, and
// whole is false then.
func (r *reader) part(text string, count int, at pubsub.Position, previous uint32) (messages []pubsub.Message, whole bool) {
	messages = make([]pubsub.Message, 0, min(count, len(text)))
	copied := frames{of: text}
	for range count {
		one, rest, ok := cutLength(text)
		if !ok {
			return messages, false
		}
		m, frame, ok := r.one(one)
		if !ok || m.Position.Tag == 0 {
			return messages, false
		}
		m.Frame = copied.before(rest, frame)
		m.Position.Epoch, m.Position.Offset = at.Epoch, at.Offset
		m.Previous, previous = previous, m.Position.Tag
		messages, text = append(messages, m), rest
		at.Offset++
	}
	return messages, text == ""
}

// read has logs read in a flush.
func (o *outlet) read(ctx context.Context, calls []*logCall) error {
	item := o.reads.Item()
	item.Value, item.Timeout = calls, o.timeout
	if err := through(ctx, o, o.reads, item); err != nil {
		return err
	}
	item.Value = nil
	o.reads.Free(item)
	return nil
}

// positionOf reads the epoch, the offset and the tag that a reply begins with.
func positionOf(reply []any) (p pubsub.Position, ok bool) {
	var texts [3]string
	for i := range texts {
		texts[i], _ = reply[i].(string)
	}
	return parsePosition(texts[0], texts[1], texts[2])
}

// Heads implements [pubsub.Log]. It takes one round trip for each server that has some of the logs, all
// at the same time. It fails as Read does.
func (b *broker) Heads(ctx context.Context, topics []string) ([]pubsub.Position, error) {
	if b.ctx.Err() != nil {
		return nil, pubsub.ErrClosed
	}
	within, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	type part struct { // of one server; all have keys in it
		calls []*logCall
		open  map[any]*logCall // by what one script may touch
	}
	parts := map[any]*part{}
	type place struct {
		call *logCall
		at   int
	}
	places := make([]place, len(topics))
	for i, topic := range topics {
		if err := checkTopic(topic); err != nil {
			return nil, err
		}
		k := b.logKey(topic)
		server, err := b.where.server(within, k)
		if err != nil {
			return nil, fmt.Errorf("redis: reading the heads of logs: %w", err)
		}
		script, err := b.where.script(within, k)
		if err != nil {
			return nil, fmt.Errorf("redis: reading the heads of logs: %w", err)
		}
		p := parts[server]
		if p == nil {
			p = &part{open: map[any]*logCall{}}
			parts[server] = p
		}
		c := p.open[script]
		if c == nil || len(c.keys) == headsAtOnce {
			c = &logCall{args: []any{"heads"}}
			p.open[script], p.calls = c, append(p.calls, c)
		}
		places[i] = place{c, len(c.keys)}
		c.keys = append(c.keys, k)
	}
	errs := make(chan error, len(parts))
	for _, p := range parts {
		go func() {
			errs <- b.hand(ctx, &b.reading, p.calls[0].keys[0], func(ctx context.Context, o *outlet) error { return o.read(ctx, p.calls) })
		}()
	}
	var err error
	for range parts {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return nil, fmt.Errorf("redis: reading the heads of logs: %w", err)
	}
	heads := make([]pubsub.Position, len(topics))
	for i, p := range places {
		ok := len(p.call.reply) == 3*len(p.call.keys)
		if ok {
			heads[i], ok = positionOf(p.call.reply[3*p.at:])
		}
		if !ok {
			return nil, fmt.Errorf("redis: reading the heads of logs: %w", errReply)
		}
	}
	return heads, nil
}
