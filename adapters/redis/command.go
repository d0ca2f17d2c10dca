package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/limit/combine"
)

// A command is one run of the script: questions about keys that one script may
// touch. Its format is that of limit.lua.
type command struct {
	asks     []*ask
	items    []*combine.Item[call] // whose the asks are
	together bool
	whole    bool // the script itself is sent, not its name
	injected bool // now is the clock, not the server
	now      int64

	keys      []string // of the asks, each once
	index     map[string]int
	places    []int // of the key of each ask
	questions []question
	wire      []byte // the asks as the script reads them
	args      []any
	numbers   []int64
	states    [][]int64

	reply string
	err   error
}

// A question is what several asks may have in common.
type question struct {
	operation operation
	plan      *limit.Plan
	cost      int64
	at, paid  int64 // of a refund
}

// longer is how many milliseconds state outlives what it counts for under a clock
// that is not the server's: an hour.
const longer = "3600000"

func (c *command) add(item *combine.Item[call], a *ask) {
	c.asks = append(c.asks, a)
	c.items = append(c.items, item)
}

// encode makes the command for go-redis.
func (c *command) encode(ctx context.Context) once {
	c.keys, c.places, c.questions, c.wire, c.args = c.keys[:0], c.places[:0], c.questions[:0], c.wire[:0], c.args[:0]
	clear(c.index)
	same := true // every key is asked the first question, once
	for i, a := range c.asks {
		k, q := c.place(a), c.ask(a)
		same = same && k == i+1 && q == 1
		c.wire = append(c.wire, byte(k>>8), byte(k), byte(q>>8), byte(q))
	}
	if same {
		c.wire = c.wire[:0]
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
	now, more := "", "0"
	if c.injected {
		now, more = strconv.FormatInt(c.now, 10), longer
	}
	mode := len(c.args) + 2
	c.args = append(c.args, now, more, "buckets", c.wire)
	if buckets := c.addQuestions(); c.together {
		c.args[mode] = "all"
	} else if !buckets {
		c.args[mode] = ""
	}
	return once{goredis.NewCmd(ctx, c.args...)}
}

// place finds or adds the key of an ask, and returns its number.
func (c *command) place(a *ask) int {
	k, ok := c.index[a.key]
	if !ok {
		c.keys = append(c.keys, a.key)
		k = len(c.keys)
		c.index[a.key] = k
	}
	c.places = append(c.places, k-1)
	return k
}

// ask finds or adds the question of an ask, and returns its number.
func (c *command) ask(a *ask) int {
	q := question{operation: a.operation, plan: a.plan, cost: min(a.cost, maxCost)}
	if a.operation == refund {
		q.at = min(max(a.taken.At, 0), maxInstant)
		q.paid = q.at + min(max(a.taken.ResetAfter.Microseconds(), 0), maxSpan)
	}
	for i, other := range c.questions {
		if other == q {
			return i + 1
		}
	}
	c.questions = append(c.questions, q)
	return len(c.questions)
}

// addQuestions adds the questions to the arguments, and reports whether all are to
// take from token buckets.
func (c *command) addQuestions() (buckets bool) {
	buckets = true
	for _, q := range c.questions {
		c.numbers = q.plan.Numbers(append(c.numbers[:0], int64(q.operation), q.cost, q.at, q.paid))
		buckets = buckets && q.operation == take && len(c.numbers) == 4+limit.NumbersPerPart && c.numbers[4] == limit.KindBucket
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
	maxCost    = int64(1) << 52
	maxInstant = int64(1) << 52
	maxSpan    = int64(1)<<52 - 1
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
		c.states = append(c.states, nil)
	}
	for k := range c.keys {
		var text string
		text, texts, _ = strings.Cut(texts, ",")
		c.states[k] = readState(c.states[k][:0], text)
	}
	if c.together {
		c.decideTogether(now)
		return nil
	}
	for i, a := range c.asks {
		c.decide(a, &c.states[c.places[i]], now)
	}
	return nil
}

// decide does for one ask what the script did.
func (c *command) decide(a *ask, state *[]int64, now int64) {
	switch a.operation {
	case take:
		*state, _ = a.plan.Take(&a.answer, a.plan.Complete(*state), now, a.cost)
		a.question.Learn(&a.answer, *state)
	case peek:
		a.plan.Peek(&a.answer, a.plan.Complete(*state), now, a.cost)
	case refund:
		taken := a.taken
		*state, _, _ = a.plan.Refund(a.plan.Complete(*state), now, &taken)
	case reset:
		*state = (*state)[:0]
	}
}

// decideTogether does for all asks what the script did: it charges them in order
// until one is denied, and then takes all of it back.
func (c *command) decideTogether(now int64) {
	before := make([][]int64, len(c.asks))
	denied := -1
	for i, a := range c.asks {
		state := &c.states[c.places[i]]
		before[i] = append([]int64(nil), *state...)
		*state, _ = a.plan.Take(&a.answer, a.plan.Complete(*state), now, a.cost)
		if !a.answer.Allowed {
			denied = i
			break
		}
	}
	if denied < 0 {
		for i, a := range c.asks {
			a.question.Learn(&a.answer, c.states[c.places[i]])
		}
		return
	}
	for i := denied - 1; i >= 0; i-- {
		c.states[c.places[i]] = before[i]
	}
	for i, a := range c.asks {
		if i != denied {
			a.plan.Peek(&a.answer, a.plan.Complete(c.states[c.places[i]]), now, a.cost)
		}
	}
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
	if err != nil || now < 0 || now > maxInstant {
		return 0, fmt.Errorf("the script replied with the instant %q", text)
	}
	return now, nil
}

// readState reads a state as the script writes it. Text that is none is no state.
func readState(dst []int64, text string) []int64 {
	for text != "" {
		var word string
		word, text, _ = strings.Cut(text, " ")
		n, err := strconv.ParseUint(word, 10, 53)
		if err != nil {
			return dst[:0]
		}
		dst = append(dst, int64(n))
	}
	return dst
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
