package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/pubsub"
)

// A publication is a message on its way out, and the answer.
type publication struct {
	topic     string
	channel   string
	payload   payload
	alone     []any // the arguments of a command that publishes it alone; nil before the first
	receivers int
	// Of one that is appended to a log:
	history pubsub.History // otherwise zero
	id      string
	bytes   int             // of its frame
	at      pubsub.Position // the tag, if it is new; then the answer
}

// A payload is what is published of a message.
type payload []byte

// MarshalBinary is for go-redis, which takes a pointer to a payload without an allocation.
func (p *payload) MarshalBinary() ([]byte, error) { return *p, nil }

// String is for hooks of the client that print commands.
func (p *payload) String() string { return string(*p) }

// A parcel is a command that publishes messages of one topic, in order.
type parcel struct {
	items []*batch.Item[publication]
	bytes int // of what is published
}

// parcelKey is what the messages of a parcel have in common.
type parcelKey struct {
	topic   string
	history pubsub.History
}

func (p *publication) parcel() parcelKey { return parcelKey{p.topic, p.history} }

// flushRoom is what one round trip of publishing needs, used again.
type flushRoom struct {
	parcels  []parcel
	commands []goredis.Cmder
}

var flushRooms = sync.Pool{New: func() any { return &flushRoom{} }}

func (r *flushRoom) free() {
	clear(r.parcels)
	clear(r.commands)
	r.parcels, r.commands = r.parcels[:0], r.commands[:0]
	flushRooms.Put(r)
}

// bundledAtOnce is how many bytes one command appends, but for a single message.
const bundledAtOnce = 64 << 10

// publishTrip publishes a batch, so many bytes at a time.
func (b *broker) publishTrip(ctx context.Context, o *outlet, server any, items []*batch.Item[publication]) {
	start := time.Now()
	answered, appended := false, false
	for rest := items; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && (n == 0 || size+len(rest[n].Value.payload) <= publishedAtOnce) {
			size += len(rest[n].Value.payload)
			n++
		}
		room := flushRooms.Get().(*flushRoom)
		room.parcels = parcelsOf(room.parcels, rest[:n])
		rest = rest[n:]
		for i := range room.parcels {
			room.commands = append(room.commands, b.command(ctx, &room.parcels[i]))
		}
		b.runScripts(ctx, server, room.commands)
		for i := range room.parcels {
			p := &room.parcels[i]
			answered = p.answer(room.commands[i]) || answered
			appended = appended || p.appends()
		}
		room.free()
	}
	if answered && appended {
		b.evictions.look(server)
	}
	conclude(ctx, o, items, start, answered)
}

// parcelsOf puts messages of the same topic into one parcel. It appends the parcels to none.
func parcelsOf(parcels []parcel, items []*batch.Item[publication]) []parcel {
	parcels = append(parcels, parcel{})
	var index map[parcelKey]int // the last parcel of each; nil while there is one parcel
	at, current := 0, items[0].Value.parcel()
	for n, it := range items {
		if k := it.Value.parcel(); k != current {
			if index == nil {
				index = make(map[parcelKey]int, len(items)-n+1)
			}
			index[current] = at
			var ok bool
			if at, ok = index[k]; !ok {
				at, parcels = len(parcels), append(parcels, parcel{})
			}
			current = k
		}
		p := &parcels[at]
		size := len(it.Value.payload)
		if p.appends() && p.bytes+size > bundledAtOnce {
			at, parcels = len(parcels), append(parcels, parcel{})
			p = &parcels[at]
		}
		if p.bytes += size; len(parcels) == 1 {
			p.items = items[: n+1 : n+1]
		} else {
			p.items = append(p.items, it)
		}
	}
	return parcels
}

// appends reports whether the messages of a parcel, which are none yet or all alike, are appended to a log.
func (p *parcel) appends() bool {
	return len(p.items) > 0 && p.items[0].Value.history != pubsub.History{}
}

// command is the command of a parcel.
func (b *broker) command(ctx context.Context, p *parcel) goredis.Cmder {
	first := &p.items[0].Value
	if p.appends() {
		return b.appendCommand(ctx, p)
	}
	if len(p.items) == 1 {
		if first.alone == nil {
			first.alone = []any{b.nodes.publishing(), first.channel, &first.payload}
		}
		return onlyOnce{goredis.NewIntCmd(ctx, first.alone...)}
	}
	bundle := append(make([]byte, 0, 1+lengthBytes*len(p.items)+p.bytes), severalLayout)
	for _, it := range p.items {
		bundle = appendWithLength(bundle, it.Value.payload)
	}
	return onlyOnce{goredis.NewIntCmd(ctx, b.nodes.publishing(), first.channel, bundle)}
}

// appendCommand is the call of the script of logs that appends a bundle.
func (b *broker) appendCommand(ctx context.Context, p *parcel) goredis.Cmder {
	first := &p.items[0].Value
	h := first.history
	index := make([]byte, 0, 12*len(p.items))
	body := make([]byte, 0, lengthBytes*len(p.items)+p.bytes)
	bytes := 0
	for _, it := range p.items {
		m := &it.Value
		body = appendWithLength(body, m.payload)
		bytes += m.bytes
		index = binary.BigEndian.AppendUint32(index, m.at.Tag)
		index = binary.BigEndian.AppendUint32(index, uint32(bytes))
		index = binary.BigEndian.AppendUint32(index, uint32(len(body)))
	}
	args := append(make([]any, 0, 16), "evalsha", logScriptID, 1, b.logKey(first.topic),
		"append", newEpoch(), h.Age.Milliseconds(), h.Messages, h.Bytes, b.nodes.publishing(),
		first.channel, len(p.items), index, body)
	for i, it := range p.items {
		if id := it.Value.id; id != "" {
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

// placed records positions: the script replies with the epoch and the offset of the first new message, and
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
		at := &it.Value.at
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
func (b *broker) runScripts(ctx context.Context, server any, commands []goredis.Cmder) {
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
