package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wskit/wskit/bench/stats"
)

// FollowPlan is what connections follow: each joins a room, and gets the messages of its room and those for all.
type FollowPlan struct {
	Room  func(conn int) int
	All   int // messages for all, numbered from 0; they come first
	Rooms int // messages of each room, numbered from 0
	// Joined is called when all connections have joined.
	Joined func()
	// Result is called with what was counted of the messages for all, and then of those of the rooms.
	Result func(FollowResult)
}

// FollowResult is what the connections have got of one kind of message. A time counts from the publishing, by the
// clock of this machine.
type FollowResult struct {
	Delivered, Missing int
	P99                time.Duration
	Longest            []time.Duration // of each message, until the last connection had it
}

// AllTopic is the topic that all connections follow.
const AllTopic = "all"

// Room is the topic of a room.
func Room(i int) string { return fmt.Sprint("room:", i) }

// joining is how many connections wait for the answer to their join at a time.
const joining = 100

// silentAfter ends the wait for messages of which some have come: the others were dropped.
const silentAfter = 10 * time.Second

// Follow counts messages on all connections, until all have come or no more do. It fails if one comes twice, in
// another order than that of its numbers, or is of another topic.
func (s *Swarm) Follow(ctx context.Context, plan FollowPlan) error {
	f := &followRun{plan: plan, followers: make(map[*conn]*follower, len(s.conns)), owed: len(s.conns)}
	for i, c := range s.conns {
		room := Room(plan.Room(i))
		one := &follower{topic: fmt.Appendf(nil, `"topic":%q,`, AllTopic), room: fmt.Appendf(nil, `"topic":%q,`, room)}
		one.join = appendMasked(nil, opText, fmt.Appendf(nil, `{"type":"join","meta":{"correlationId":"j"},"payload":{"room":%q}}`, room))
		f.followers[c] = one
		f.waiting = append(f.waiting, c)
	}
	if plan.All < 1 || plan.Rooms < 1 || len(s.conns) == 0 {
		return errors.New("load: following needs connections and messages")
	}
	f.begin(plan.All)
	return s.drive(ctx, f)
}

type follower struct {
	join        []byte
	topic, room []byte // as a message has them
	next        int    // number of the next message
}

type followRun struct {
	plan      FollowPlan
	followers map[*conn]*follower
	waiting   []*conn // to join
	owed      int     // joins that are not answered

	each   int // messages of the present kind for each connection
	rooms  bool
	result FollowResult
	took   []time.Duration
	heard  time.Time // when the last message came; zero: none has
	over   bool
}

// begin waits for the next kind of messages.
func (f *followRun) begin(each int) {
	f.each, f.took, f.heard = each, nil, time.Time{}
	f.result = FollowResult{Longest: make([]time.Duration, each)}
}

func (f *followRun) start(*Swarm) error {
	for range joining {
		if err := f.joinNext(); err != nil {
			return err
		}
	}
	return nil
}

func (f *followRun) joinNext() error {
	if len(f.waiting) == 0 {
		return nil
	}
	c := f.waiting[0]
	f.waiting = f.waiting[1:]
	return c.send(f.followers[c].join)
}

func (f *followRun) received(c *conn, fr frame) error {
	one := f.followers[c]
	if one.join != nil {
		if !bytes.Contains(fr.payload, []byte(`"type":"joined"`)) {
			return fmt.Errorf("load: the answer to a join is %.200q", fr.payload)
		}
		one.join = nil
		if f.owed--; f.owed == 0 {
			f.plan.Joined()
		}
		return f.joinNext()
	}
	number, sent, err := f.read(one, fr.payload)
	if err != nil {
		return err
	}
	if number < one.next || number >= f.each {
		return fmt.Errorf("load: instead of message %d of %d: %.200q", one.next, f.each, fr.payload)
	}
	one.next = number + 1
	f.heard = time.Now()
	took := f.heard.Sub(sent)
	f.took = append(f.took, took)
	f.result.Longest[number] = max(f.result.Longest[number], took)
	f.result.Delivered++
	return nil
}

// read returns the number and the instant of a message.
func (f *followRun) read(one *follower, payload []byte) (number int, sent time.Time, err error) {
	_, rest, ok := bytes.Cut(payload, []byte(`"payload":{"n":`))
	digits, rest, more := bytes.Cut(rest, []byte(`,"sent":`))
	instant, _, end := bytes.Cut(rest, []byte(","))
	number, err1 := strconv.Atoi(string(digits))
	micros, err2 := strconv.ParseInt(string(instant), 10, 64)
	if !ok || !more || !end || err1 != nil || err2 != nil || !bytes.Contains(payload, one.topic) {
		return 0, sent, fmt.Errorf("load: not a message of the topic (%s): %.250q", one.topic, payload)
	}
	return number, time.UnixMicro(micros), nil
}

func (f *followRun) drained(*conn) error { return nil }
func (f *followRun) idle() bool          { return f.owed == 0 }

func (f *followRun) done(now time.Time) bool {
	all := f.each * len(f.followers)
	silent := !f.heard.IsZero() && now.Sub(f.heard) > silentAfter
	if f.over || f.result.Delivered < all && !silent {
		return f.over
	}
	slices.Sort(f.took)
	f.result.Missing = all - f.result.Delivered
	f.result.P99 = stats.Quantile(f.took, 0.99)
	f.plan.Result(f.result)
	if f.rooms {
		f.over = true
		return true
	}
	f.rooms = true
	for _, one := range f.followers {
		one.topic, one.next = one.room, 0
	}
	f.begin(f.plan.Rooms)
	return false
}
