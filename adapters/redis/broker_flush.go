package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/pubsub"
)

// A publication is a message on its way out, and the answer.
type publication struct {
	channel   string
	payload   []byte // what is published of it
	receivers int
	log       *appended // nil for one that is not appended
}

// appended is what the log of a topic needs to know of a message.
type appended struct {
	key     string // of the log
	history pubsub.History
	id      string
	bytes   int
	at      pubsub.Position // the tag, if it is new; then the answer
}

// A parcel is a command that publishes messages of one topic, in order.
type parcel struct {
	items []*batch.Item[publication]
}

// parcelKey is what the messages of a parcel have in common.
type parcelKey struct {
	channel string
	history pubsub.History // zero for those that are not appended
}

// publishTrip publishes a batch, so many bytes at a time.
func (b *Broker) publishTrip(ctx context.Context, o *outlet, server any, items []*batch.Item[publication]) {
	start := time.Now()
	answered := false
	for rest := items; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && (n == 0 || size+len(rest[n].Value.payload) <= publishedAtOnce) {
			size += len(rest[n].Value.payload)
			n++
		}
		parcels := parcelsOf(rest[:n])
		rest = rest[n:]
		commands := make([]goredis.Cmder, len(parcels))
		for i := range parcels {
			commands[i] = b.command(ctx, &parcels[i])
		}
		b.runScripts(ctx, server, commands)
		for i := range parcels {
			answered = parcels[i].answer(commands[i]) || answered
		}
		if answered && parcels[0].items[0].Value.log != nil {
			b.evictions.look(server)
		}
	}
	conclude(ctx, o, items, start, answered)
}

// parcelsOf puts messages of the same topic into one parcel.
func parcelsOf(items []*batch.Item[publication]) []parcel {
	if len(items) == 1 {
		return []parcel{{items: items}}
	}
	parcels := make([]parcel, 0, len(items))
	index := make(map[parcelKey]int, len(items))
	for _, it := range items {
		k := parcelKey{channel: it.Value.channel}
		if it.Value.log != nil {
			k.history = it.Value.log.history
		}
		i, ok := index[k]
		if !ok {
			i = len(parcels)
			index[k] = i
			parcels = append(parcels, parcel{})
		}
		parcels[i].items = append(parcels[i].items, it)
	}
	return parcels
}

// command is the command of a parcel.
func (b *Broker) command(ctx context.Context, p *parcel) goredis.Cmder {
	first := &p.items[0].Value
	switch {
	case first.log != nil:
		return b.appendCommand(ctx, p)
	case len(p.items) == 1:
		return onlyOnce{goredis.NewIntCmd(ctx, b.nodes.publishing(), first.channel, first.payload)}
	}
	size := 1
	for _, it := range p.items {
		size += lengthBytes + len(it.Value.payload)
	}
	payload := append(make([]byte, 0, size), severalLayout)
	for _, it := range p.items {
		payload = appendWithLength(payload, it.Value.payload)
	}
	return onlyOnce{goredis.NewIntCmd(ctx, b.nodes.publishing(), first.channel, payload)}
}

func (b *Broker) appendCommand(ctx context.Context, p *parcel) goredis.Cmder {
	first := &p.items[0].Value
	h := first.log.history
	args := append(make([]any, 0, 12+5*len(p.items)), "evalsha", logScriptID, 1, first.log.key,
		"append", newEpoch(), h.Age.Milliseconds(), h.Messages, h.Bytes, b.nodes.publishing(), first.channel, len(p.items))
	for _, it := range p.items {
		m := &it.Value
		args = append(args, uint64(m.log.at.Tag), m.log.bytes, appendWithLength(nil, m.payload))
	}
	for i, it := range p.items {
		if id := it.Value.log.id; id != "" {
			args = append(args, i+1, id)
		}
	}
	return once{goredis.NewCmd(ctx, args...)}
}

// answer hands the answer to a parcel to its messages. It reports whether there is one.
func (p *parcel) answer(command goredis.Cmder) bool {
	err := command.Err()
	switch c := command.(type) {
	case onlyOnce:
		for _, it := range p.items {
			it.Err, it.Value.receivers = err, int(c.Val())
		}
	case once:
		var reply []any
		if reply, err = c.Slice(); err == nil {
			err = p.placed(reply)
		}
		for _, it := range p.items {
			it.Err = err
		}
	}
	return isAnswer(err)
}

// placed takes note of positions: the script replies with the epoch and the offset of the first new message, and
// then with the number and the place of each message whose id is known.
func (p *parcel) placed(reply []any) error {
	if len(reply)%2 != 0 || len(reply) == 0 {
		return errReply
	}
	text, _ := reply[0].(string)
	epoch, err := strconv.ParseUint(text, 10, 64)
	offset, ok := reply[1].(int64)
	if err != nil || !ok {
		return errReply
	}
	known := reply[2:]
	for i, it := range p.items {
		at := &it.Value.log.at
		if len(known) == 0 || known[0] != int64(i+1) {
			at.Epoch, at.Offset = epoch, uint64(offset)
			offset++
			continue
		}
		place, _ := known[1].(string)
		if *at, ok = parsePlace(text + " " + place); !ok {
			return errReply
		}
		known = known[2:]
	}
	return nil
}

// runScripts runs commands in one round trip, and once more those whose script the server does
// not know.
func (b *Broker) runScripts(ctx context.Context, server any, commands []goredis.Cmder) {
	b.where.run(ctx, server, commands)
	var unknown []int
	var again []goredis.Cmder
	for i, c := range commands {
		if err := c.Err(); err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") {
			args := append([]any{"eval", logScript}, c.Args()[2:]...)
			unknown, again = append(unknown, i), append(again, once{goredis.NewCmd(ctx, args...)})
		}
	}
	if len(again) == 0 {
		return
	}
	b.where.run(ctx, server, again)
	for i, at := range unknown {
		commands[at] = again[i]
	}
}

// conclude looks at the errors of a flush: whether the server does not answer.
func conclude[T any](ctx context.Context, o *outlet, items []*batch.Item[T], start time.Time, answered bool) {
	o.stalled.Store(false)
	for _, it := range items {
		if err := it.Err; err != nil && !isAnswer(err) {
			late, left := lateness(ctx, err, time.Since(start))
			if late {
				o.stalled.Store(true)
				it.Err = fmt.Errorf("no answer within %v: %w", o.timeout, err)
			}
			if !answered && !left {
				it.Err = batch.NotAnswered(it.Err)
			}
		}
	}
}

func newEpoch() uint64 { return max(1, rand.Uint64()) }

func newTag() uint32 { return max(1, rand.Uint32()) }
