package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/asks"
	"github.com/wskit/wskit/internal/batch"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

// A command is one run of the script: questions about keys that one script may
// touch. Its format is that of limit.lua.
type command struct {
	asks     []*asks.Ask
	items    []*batch.Item[call] // whose the asks are
	together bool
	whole    bool // the script itself is sent, not its name
	injected bool // now is the clock, not the server
	now      int64

	keys      []string // of the asks, each once
	index     map[string]int
	places    []int // of the key of each ask
	asked     []int // the question of each ask
	ends      []end // of each key
	follows   []int // the next ask of the same key, or 0
	questions []question
	wire      []byte // the asks as the script reads them
	args      []any
	numbers   []int64
	states    []asks.State // of each key

	reply string
	err   error
}

// An end is where the asks of a key begin and end.
type end struct{ first, last int }

// A question is what several asks may have in common.
type question struct {
	operation asks.Operation
	plan      *limit.Plan
	cost      int64
	at        int64 // of the charge to refund
}

// longer is how many milliseconds state outlives what it counts for. A clock may be set
// back by as much, and must then find the state.
var longer = strconv.FormatInt(limit.ClockTolerance.Milliseconds(), 10)

func (c *command) add(item *batch.Item[call], a *asks.Ask) {
	c.asks = append(c.asks, a)
	c.items = append(c.items, item)
}

// encode makes the command for go-redis.
func (c *command) encode(ctx context.Context) once {
	c.keys, c.places, c.asked, c.ends, c.follows = c.keys[:0], c.places[:0], c.asked[:0], c.ends[:0], c.follows[:0]
	c.questions, c.wire, c.args = c.questions[:0], c.wire[:0], c.args[:0]
	clear(c.index)
	for _, a := range c.asks {
		c.place(a)
		c.ask(a)
	}
	if c.whole {
		c.args = append(c.args, "eval", script)
	} else {
		c.args = append(c.args, "evalsha", scriptID)
	}
	c.args = append(c.args, strconv.Itoa(len(c.keys)))
	for i := range c.keys {
		c.args = append(c.args, &c.keys[i])
	}
	now := ""
	if c.injected {
		now = strconv.FormatInt(c.now, 10)
	}
	at := len(c.args) + 2
	c.args = append(c.args, now, longer, "", nil)
	buckets := c.addQuestions()
	switch {
	case c.together:
		c.args[at] = "all"
	case buckets:
		c.args[at] = "buckets"
	}
	switch {
	case len(c.keys) == len(c.asks) && len(c.questions) == 1: // one of each key
	case buckets && !c.together:
		c.wireRuns()
	default:
		c.wireAsks()
	}
	c.args[at+1] = c.wire
	return once{goredis.NewCmd(ctx, c.args...)}
}

// wireAsks writes the asks in order, each with its key and its question.
func (c *command) wireAsks() {
	for i := range c.asks {
		c.wire = binary.BigEndian.AppendUint16(c.wire, uint16(c.places[i]+1))
		c.wire = binary.BigEndian.AppendUint16(c.wire, uint16(c.asked[i]+1))
	}
}

// wireRuns writes the asks of each key as runs of one question, which the script
// answers in one step.
func (c *command) wireRuns() {
	for _, e := range c.ends {
		for i, more := e.first, true; more; {
			n := 1
			for ; i != e.last && c.asked[c.follows[i]] == c.asked[i]; n++ {
				i = c.follows[i]
			}
			c.wire = binary.BigEndian.AppendUint16(c.wire, uint16(c.asked[i]+1))
			c.wire = binary.BigEndian.AppendUint16(c.wire, uint16(n))
			if more = i != e.last; more {
				c.wire = append(c.wire, 1)
				i = c.follows[i]
			} else {
				c.wire = append(c.wire, 0)
			}
		}
	}
}

// place finds or adds the key of the next ask.
func (c *command) place(a *asks.Ask) {
	i := len(c.places)
	k, ok := c.index[a.Key]
	if ok {
		c.follows[c.ends[k].last] = i
		c.ends[k].last = i
	} else {
		k = len(c.keys)
		c.keys = append(c.keys, a.Key)
		c.index[a.Key] = k
		c.ends = append(c.ends, end{i, i})
	}
	c.places = append(c.places, k)
	c.follows = append(c.follows, 0)
}

// ask finds or adds the question of the next ask.
func (c *command) ask(a *asks.Ask) {
	q := question{operation: a.Operation, plan: a.Plan, cost: min(a.Cost, maxCost)}
	if a.Operation == asks.Refund {
		q.at = min(max(a.Taken.At, 0), asks.MaxInstant)
	}
	n := slices.Index(c.questions, q)
	if n < 0 {
		n = len(c.questions)
		c.questions = append(c.questions, q)
	}
	c.asked = append(c.asked, n)
}

// addQuestions adds the questions to the arguments, and reports whether all are to
// take from token buckets.
func (c *command) addQuestions() (buckets bool) {
	buckets = true
	now := c.now
	if !c.injected {
		now = time.Now().UnixMicro()
	}
	for _, q := range c.questions {
		c.numbers = q.plan.Compiled().Numbers(append(c.numbers[:0], int64(q.operation), q.cost, q.at), now)
		buckets = buckets && q.operation == asks.Take && len(c.numbers) == 3+engine.NumbersPerPart && c.numbers[3] == engine.KindBucket
		text := make([]byte, 0, 8*len(c.numbers))
		for _, n := range c.numbers {
			text = binary.BigEndian.AppendUint64(text, math.Float64bits(float64(n)))
		}
		c.args = append(c.args, text)
	}
	return buckets
}

// What is given by callers is cut off here: beyond, it makes no difference, and
// within, it is exact in a double.
const (
	maxCost = int64(1) << 52
	maxSpan = int64(1)<<52 - 1
)

// answer makes the answers from what the script replied: the states before, on
// which it did the same.
func (c *command) answer() error {
	clock, texts, err := parse(c.reply, len(c.keys))
	if err != nil {
		return err
	}
	now, err := readInstant(clock)
	if err != nil {
		return err
	}
	for len(c.states) < len(c.keys) {
		c.states = append(c.states, asks.State{})
	}
	for k := range c.keys {
		var text string
		text, texts, _ = strings.Cut(texts, ",")
		c.states[k].Numbers, c.states[k].Reset = readState(c.states[k].Numbers[:0], text)
	}
	of := func(i int) *asks.State { return &c.states[c.places[i]] }
	if c.together { // decided as the script did
		if asks.DecideTogether(c.asks, of, now) {
			for i, a := range c.asks {
				a.Remember(of(i))
			}
		}
		return nil
	}
	for i, a := range c.asks {
		a.Decide(of(i), now)
		a.Remember(of(i))
	}
	return nil
}

// readInstant reads microseconds, or seconds and microseconds.
func readInstant(text string) (int64, error) {
	whole, rest, split := strings.Cut(text, " ")
	now, err := strconv.ParseInt(whole, 10, 53)
	if err == nil && split {
		var micros int64
		micros, err = strconv.ParseInt(rest, 10, 53)
		now = now*1_000_000 + micros
	}
	if err != nil || now < 0 || now > asks.MaxInstant {
		return 0, fmt.Errorf("the script replied with the instant %q", text)
	}
	return now, nil
}

// readState reads a state as the script writes it, and the instant of the reset behind
// it. Text that is none is no state.
func readState(dst []int64, text string) (state []int64, reset int64) {
	text, after, found := strings.Cut(text, "!")
	if found {
		reset, _ = strconv.ParseInt(after, 10, 53)
	}
	return asks.ReadNumbers(dst, text), reset
}

// clear lets go of what belongs to others.
func (c *command) clear() {
	clear(c.asks)
	clear(c.items)
	clear(c.args)
	clear(c.keys)
	clear(c.questions)
	c.asks, c.items = c.asks[:0], c.items[:0]
	c.reply, c.err, c.whole, c.now, c.injected = "", nil, false, 0, false
}
