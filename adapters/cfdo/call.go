package cfdo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/wskit/wskit/internal/denialcache"
	"github.com/wskit/wskit/internal/engine"
	"github.com/wskit/wskit/limit"
)

type operation uint8

const (
	opTake operation = iota // of one key or of several, each by itself
	opPeek
	opRefund
	opReset
	opAll
	opAcquire // as are the following, of leases
	opRenew
	opRelease
	opHeld
)

// A call is what one caller asks, and the answers.
type call struct {
	op    operation
	asks  []ask
	taken limit.Decision // to be refunded
	bound int

	leases []leaseCall // one for each of asks, of which only key and tenant are used then
}

// An ask is about one key.
type ask struct {
	key, tenant string
	plan        *limit.Plan
	cost        int64
	question    denialcache.Miss

	answer limit.Decision
	words  []int64 // the state that the decision left
	whole  bool    // that state is complete
}

// begin empties a call, and keeps its room.
func (c *call) begin(op operation) {
	c.op, c.asks, c.taken, c.bound, c.leases = op, c.asks[:0], limit.Decision{}, 0, nil
}

// add appends an ask. What it returns is valid until the next one is added.
func (c *call) add(s *store, key string, plan *limit.Plan, cost int64) *ask {
	var room []int64
	if n := len(c.asks); n < cap(c.asks) {
		room = c.asks[:n+1][n].words
	}
	a := ask{key: key, plan: plan, cost: cost, words: room[:0]}
	if s.tenant != nil {
		a.tenant = s.tenant(key)
	}
	c.asks = append(c.asks, a)
	return &c.asks[len(c.asks)-1]
}

// What the Worker takes at most: see worker/src/request.js.
const (
	maxKey     = 1024
	maxTenant  = 256
	maxAsks    = 1000
	maxBody    = 1 << 20 // a call has room, the largest that there can be
	maxCost    = 1<<53 - 1
	maxInstant = 1 << 52
)

// A body is a request as it is written: the calls and, once each, their policies.
type body struct {
	buf      []byte
	policies []byte // of the plans
	plans    []*limit.Plan
	now      int64 // in microseconds, for the policies that go by the calendar
	calls    int   // in the buffer; a call of several takes is as many
	asks     int
}

// add writes a call. It reports false, and changes nothing, when there is no room for
// it in addition to those that are there.
func (b *body) add(c *call) bool {
	before := *b
	b.write(c)
	if before.calls > 0 && (b.asks > maxAsks || len(b.buf)+len(b.policies)+len(endOfCalls)+len(endOfBody) > maxBody) {
		*b = before // what was written behind its slices is written over
		return false
	}
	return true
}

func (b *body) write(c *call) {
	if c.op >= opAcquire {
		for i := range c.leases {
			b.lease(c.op, &c.asks[i], &c.leases[i])
		}
		return
	}
	if c.op != opAll {
		for i := range c.asks {
			b.begin(c.op)
			b.ask(&c.asks[i])
			switch c.op {
			case opTake, opPeek:
				b.field("cost", min(c.asks[i].cost, maxCost))
			case opRefund:
				b.buf = append(b.buf, `,"taken":{"charged":`...)
				b.buf = strconv.AppendInt(b.buf, min(c.taken.Charged, maxCost), 10)
				b.field("at", min(max(c.taken.At, 0), maxInstant))
				b.buf = append(b.buf, '}')
			}
			b.buf = append(b.buf, '}')
		}
		return
	}
	b.begin(c.op)
	b.buf = append(b.buf, `,"asks":[`...)
	for i := range c.asks {
		if i > 0 {
			b.buf = append(b.buf, ',')
		}
		b.buf = append(b.buf, '{')
		b.ask(&c.asks[i])
		b.field("cost", min(c.asks[i].cost, maxCost))
		b.buf = append(b.buf, '}')
	}
	b.buf = append(b.buf, "]}"...)
}

var opNames = [...]string{opTake: "take", opPeek: "peek", opRefund: "refund", opReset: "reset", opAll: "all",
	opAcquire: "acquire", opRenew: "renew", opRelease: "release", opHeld: "held"}

func (b *body) begin(op operation) {
	if b.calls++; b.calls == 1 {
		b.buf = append(b.buf, `{"calls":[`...)
	} else {
		b.buf = append(b.buf, ',')
	}
	b.buf = append(b.buf, `{"op":"`...)
	b.buf = append(b.buf, opNames[op]...)
	b.buf = append(b.buf, '"')
}

// ask writes the key and its policy, after a brace or a field.
func (b *body) ask(a *ask) {
	b.asks++
	b.subject(a)
	b.field("policy", int64(b.plan(a.plan)))
}

// subject writes the key and its tenant.
func (b *body) subject(a *ask) {
	if b.buf[len(b.buf)-1] != '{' {
		b.buf = append(b.buf, ',')
	}
	b.buf = append(b.buf, `"key":`...)
	b.buf = appendText(b.buf, a.key, maxKey)
	if a.tenant != "" {
		b.buf = append(b.buf, `,"tenant":`...)
		b.buf = appendText(b.buf, a.tenant, maxTenant)
	}
}

func (b *body) field(name string, n int64) {
	b.buf = append(b.buf, `,"`...)
	b.buf = append(b.buf, name...)
	b.buf = append(b.buf, `":`...)
	b.buf = strconv.AppendInt(b.buf, n, 10)
}

// plan is the number of a policy. Limiters pass the same few plans again and
// again.
func (b *body) plan(p *limit.Plan) int {
	for i, known := range b.plans {
		if known == p {
			return i
		}
	}
	if len(b.plans) > 0 {
		b.policies = append(b.policies, ',')
	}
	b.plans, b.policies = append(b.plans, p), appendPlan(b.policies, p, b.now)
	return len(b.plans) - 1
}

const (
	endOfCalls = `],"policies":[`
	endOfBody  = "]}"
)

// end writes the policies, and with them the end.
func (b *body) end() []byte {
	b.buf = append(b.buf, endOfCalls...)
	b.buf = append(b.buf, b.policies...)
	return append(b.buf, endOfBody...)
}

// appendPlan writes a policy in the form of limit/testdata/vectors.schema.json.
func appendPlan(dst []byte, p *limit.Plan, now int64) []byte {
	parts := p.Compiled().Parts
	if len(parts) == 1 {
		return appendPolicy(dst, parts[0], now)
	}
	dst = append(dst, `{"kind":"all","parts":[`...)
	for i, part := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPolicy(dst, part, now)
	}
	return append(dst, "]}"...)
}

func appendPolicy(dst []byte, plan *engine.Plan, now int64) []byte {
	switch p := plan.Policy.(type) {
	case limit.TokenBucket:
		refill, per := rate(plan)
		return fmt.Appendf(dst, `{"kind":"token_bucket","capacity":%d,"refill":%d,"per":%d}`, p.Capacity, refill, per)
	case limit.Pacer:
		refill, per := rate(plan)
		return fmt.Appendf(dst, `{"kind":"pacer","burst":%d,"refill":%d,"per":%d,"maxWait":%d}`, p.Burst, refill, per, p.MaxWait.Microseconds())
	case limit.FixedWindow:
		return fmt.Appendf(dst, `{"kind":"fixed_window","limit":%d,"window":%d}`, p.Limit, p.Window.Microseconds())
	case limit.Calendar:
		n := plan.Numbers(nil, now)
		return fmt.Appendf(dst, `{"kind":"calendar","limit":%d,"starts":[%d,%d,%d,%d]}`, p.Limit, max(n[1], 0), n[2], n[3], n[4])
	case limit.SlidingWindow:
		return fmt.Appendf(dst, `{"kind":"sliding_window","limit":%d,"window":%d,"buckets":%d}`, p.Limit, p.Window.Microseconds(), p.Buckets)
	case limit.SlidingLog:
		return fmt.Appendf(dst, `{"kind":"sliding_log","limit":%d,"window":%d}`, p.Limit, p.Window.Microseconds())
	default:
		panic("cfdo: no such policy: " + plan.Name) // the set is closed
	}
}

// rate is the rate of a bucket in the smallest numbers that the Worker takes: JSON has
// no room for the largest that a policy may be written in.
func rate(plan *engine.Plan) (refill, per int64) {
	n := plan.Numbers(nil, 0)
	p, q := n[1], n[2] // in lowest terms
	times := (minPer + p - 1) / p
	return q * times, p * times
}

// minPer is the shortest span of a policy, in microseconds.
const minPer = 1000

// appendText writes bytes as a JSON string of as many characters, each U+00XX, so
// that different bytes are different texts, valid UTF-8 or not. What is too long
// is written as its hash.
func appendText(dst []byte, text string, most int) []byte {
	if len(text) > most {
		sum := sha256.Sum256([]byte(text))
		dst = append(dst, `"%h`...)
		dst = hex.AppendEncode(dst, sum[:])
		return append(dst, '"')
	}
	dst = append(dst, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c >= 0x7f:
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
