package redis

import (
	"context"
	"fmt"
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
}

// longer is how many milliseconds state outlives what it counts for under a clock
// that is not the server's.
const longer = 3_600_000

func (c *command) add(item *combine.Item[call], a *ask) {
	c.asks = append(c.asks, a)
	c.items = append(c.items, item)
}

// encode makes the command for go-redis.
func (c *command) encode(ctx context.Context) once {
	c.keys, c.places, c.questions, c.wire, c.args = c.keys[:0], c.places[:0], c.questions[:0], c.wire[:0], c.args[:0]
	clear(c.index)
	for _, a := range c.asks {
		c.place(a)
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
	now, more := "", 0
	if c.injected {
		now, more = strconv.FormatInt(c.now, 10), longer
	}
	mode := ""
	if c.together {
		mode = "all"
	}
	c.args = append(c.args, now, more, mode, nil)
	wire := len(c.args) - 1
	for i, a := range c.asks {
		q := c.ask(a)
		k := c.places[i] + 1
		c.wire = append(c.wire, byte(k>>8), byte(k), byte(q>>8), byte(q))
	}
	c.args[wire] = c.wire
	return once{goredis.NewCmd(ctx, c.args...)}
}

// place finds the key of an ask among the keys.
func (c *command) place(a *ask) {
	k, ok := c.index[a.key]
	if !ok {
		k = len(c.keys)
		c.keys = append(c.keys, a.key)
		c.index[a.key] = k
	}
	c.places = append(c.places, k)
}

// ask finds or adds the question of an ask, and returns its number.
func (c *command) ask(a *ask) int {
	q := question{a.operation, a.plan, min(a.cost, maxCost)}
	if a.operation != refund {
		for i, other := range c.questions {
			if other == q {
				return i + 1
			}
		}
	}
	c.questions = append(c.questions, q)
	at, paid := int64(0), int64(0)
	if a.operation == refund {
		at = min(max(a.taken.At, 0), maxInstant)
		paid = at + min(max(a.taken.ResetAfter.Microseconds(), 0), maxSpan)
	}
	c.numbers = a.plan.Numbers(append(c.numbers[:0], int64(a.operation), q.cost, at, paid))
	text := make([]byte, 0, 128)
	for i, n := range c.numbers {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	c.args = append(c.args, text)
	return len(c.questions)
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
	now, err := strconv.ParseInt(clock, 10, 64)
	if err != nil || now < 0 || now > maxInstant {
		return fmt.Errorf("the script replied with the instant %q", clock)
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
