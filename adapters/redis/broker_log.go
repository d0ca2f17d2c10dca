package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
func (b *Broker) Append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
	at, err := b.append(ctx, m, h, id)
	if err != nil {
		b.stats.failed.Add(1)
	}
	return at, err
}

func (b *Broker) append(ctx context.Context, m pubsub.Message, h pubsub.History, id string) (pubsub.Position, error) {
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
	channel := key(b.opts.Prefix, b.kind, m.Topic)
	p := publication{
		channel: channel, payload: seal(b.opts.Keys).close(channel, encode(m)),
		log: &appended{key: b.logKey(m.Topic), history: h, id: id, bytes: len(m.Frame), at: m.Position},
	}
	err := b.hand(ctx, &b.publishing, channel, func(ctx context.Context, o *outlet) error { return o.publish(ctx, &p) })
	if err != nil {
		return pubsub.Position{}, fmt.Errorf("redis: appending: %w", err)
	}
	return p.log.at, nil
}

func (b *Broker) logKey(topic string) string { return key(b.opts.Prefix, logKind, topic) }

// A logCall is one run of the script of logs that reads.
type logCall struct {
	keys  []string
	args  []any
	reply []any
	err   error
}

// readTrip runs the scripts of a batch of calls.
func (b *Broker) readTrip(ctx context.Context, o *outlet, server any, items []*batch.Item[[]*logCall]) {
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
func (b *Broker) Read(ctx context.Context, topic string, h pubsub.History, r pubsub.ReadOptions) (page pubsub.Page, err error) {
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

// readPages puts a page together from what the script reads at once.
func (b *Broker) readPages(ctx context.Context, o *outlet, topic, logKey string, h pubsub.History, r pubsub.ReadOptions) (page pubsub.Page, err error) {
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
func (b *Broker) readPart(ctx context.Context, o *outlet, topic, logKey string, h pubsub.History, r pubsub.ReadOptions, first bool) (page pubsub.Page, err error) {
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
	if err := through(ctx, o, o.reads, &calls); err != nil {
		return page, err
	}
	reply := calls[0].reply
	if len(reply) < 6 {
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
	at, _ := reply[5].(string)
	next, ok := parsePosition("0", at, "0")
	if !ok {
		return page, errReply
	}
	entries := reply[6:]
	if r.Backwards {
		next.Offset += uint64(len(entries))
	}
	from := reader{seal: b.opts.Keys, channel: key(b.opts.Prefix, b.kind, topic), topic: topic, maxFrame: b.opts.MaxFrame}
	for _, e := range entries {
		if r.Backwards {
			next.Offset--
		}
		text, _ := e.(string)
		m, ok := from.entry(text)
		if !ok {
			b.ignored(topic, len(text))
			if page.More = true; len(page.Messages) == 0 {
				page.More, page.Lost = false, pubsub.LossTrimmed
			}
			break
		}
		m.Position.Epoch, m.Position.Offset = page.Head.Epoch, next.Offset
		if page.Messages = append(page.Messages, m); !r.Backwards {
			next.Offset++
		}
	}
	if r.Backwards {
		slices.Reverse(page.Messages)
	}
	return page, nil
}

// entry reads a message as the script has written it. Its position has the tag only.
func (r *reader) entry(text string) (m pubsub.Message, ok bool) {
	head, rest, _ := strings.Cut(text, "\n")
	tag, head, _ := strings.Cut(head, " ")
	previous, _, _ := strings.Cut(head, " ")
	place, ok := parsePosition("0", previous, tag)
	if !ok || place.Offset > math.MaxUint32 {
		return m, false
	}
	payload, rest, ok := cutLength(rest)
	if !ok || rest != "" {
		return m, false
	}
	m, ok = r.one(payload)
	m.Previous = uint32(place.Offset)
	return m, ok && m.Position.Tag == place.Tag
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
func (b *Broker) Heads(ctx context.Context, topics []string) ([]pubsub.Position, error) {
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
			errs <- b.hand(ctx, &b.reading, p.calls[0].keys[0], func(ctx context.Context, o *outlet) error { return through(ctx, o, o.reads, &p.calls) })
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

var _ pubsub.Log = (*Broker)(nil)
