package gate

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/limit"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers-10.
const (
	quotaExceeded    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity  = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	abnormalUsage    = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	quotaTitle       = "Request cannot be satisfied as assigned quota has been exceeded"
	capacityTitle    = "Request cannot be satisfied due to temporary server capacity constraints"
	abnormalTitle    = "Request not satisfied due to detection of abnormal request pattern"
	concurrencyUnits = "concurrent-requests"
)

// denial is the reason of a refusal.
type denial struct {
	err         error
	status      int
	kind, title string
	policy      string
	wait        time.Duration
	quota       *quota // nil: none is sent
}

// quota has the fields of an answer that describe a limit.
type quota struct {
	limit, remaining int64
	reset            time.Duration
	q, window        int64 // of draft 10; window 0: open at a time
}

// rate denies because connections are opened too fast.
func rate(l *limit.Limiter, policy *limit.Plan, d *limit.Decision) denial {
	q := quota{limit: d.Limit, remaining: d.Remaining, reset: d.ResetAfter}
	for _, part := range policy.Compiled().Parts {
		if part.Name == d.Policy {
			q.q, q.window = perWindow(part.Policy.(limit.Policy))
		}
	}
	return denial{
		err: &errors.LimitExceeded{
			Kind: errors.LimitConnection, Observed: 1, Limit: d.Limit, Remaining: d.Remaining,
			RetryAfter: d.RetryAfter, Never: d.Impossible, Limiter: l.Name(), Policy: d.Policy,
		},
		status: http.StatusTooManyRequests, kind: quotaExceeded, title: quotaTitle,
		policy: d.Policy, wait: d.RetryAfter, quota: &q,
	}
}

// perWindow returns the rate of a policy as a quota in a number of seconds. In draft 10 the
// seconds are a whole number.
func perWindow(p limit.Policy) (q, seconds int64) {
	var n int64
	var per time.Duration
	switch p := p.(type) {
	case limit.TokenBucket:
		n, per = p.Refill, p.Per
	case limit.Pacer:
		n, per = p.Refill, p.Per
	case limit.FixedWindow:
		n, per = p.Limit, p.Window
	case limit.SlidingWindow:
		n, per = p.Limit, p.Window
	case limit.SlidingLog:
		n, per = p.Limit, p.Window
	default:
		return 0, 0
	}
	seconds = ceil.Div(per, time.Second)
	return int64(float64(n) * float64(time.Duration(seconds)*time.Second) / float64(per)), seconds
}

// full denies because too many connections are open.
func full(l *openLimit, decision *limit.Decision, wait time.Duration) denial {
	most := l.most
	d := denial{
		err: &errors.LimitExceeded{
			Kind: errors.LimitConnection, Observed: most + 1, Limit: most,
			RetryAfter: wait, Limiter: decision.Policy, Policy: l.policy,
		},
		status: http.StatusTooManyRequests, kind: quotaExceeded, title: quotaTitle,
		policy: l.policy, wait: wait, quota: &quota{limit: most, reset: wait, q: most},
	}
	if l.policy == "open-total" {
		d.status, d.kind, d.title = http.StatusServiceUnavailable, reducedCapacity, capacityTitle
	}
	return d
}

// ban denies because the client is banned.
func ban(left time.Duration) denial {
	return denial{
		err:    &errors.LimitExceeded{Kind: errors.LimitBanned, RetryAfter: left, Policy: "ban"},
		status: http.StatusTooManyRequests, kind: abnormalUsage, title: abnormalTitle,
		policy: "ban", wait: left,
	}
}

// refuse makes the answer of a denial, and reports it.
func (a *admission) refuse(d denial) error {
	gate := a.gate
	gate.refused.Add(1)
	refusal := &ingress.Refusal{
		Err: d.err, Status: d.status, Type: d.kind, Title: d.title, TraceID: a.trace,
		Header: d.header(gate.o.RateLimitDraft10),
		Accept: gate.o.AcceptRefused && a.page && gate.accepts.Take(),
	}
	if d.policy != "" {
		refusal.Violated = []string{d.policy}
	}
	r := Refusal{
		Policy: d.policy, IP: a.ip, Claim: a.claim,
		RetryAfter: d.wait, TraceID: a.trace, Err: d.err,
	}
	if gate.o.OnRefused != nil {
		gate.o.OnRefused(r)
	} else {
		gate.log.refusal(gate.o.Limiter.Logger, r)
	}
	return refusal
}

func (d *denial) header(draft10 bool) http.Header {
	h := http.Header{}
	if d.quota == nil {
		return h
	}
	h.Set("X-RateLimit-Limit", strconv.FormatInt(d.quota.limit, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(d.quota.remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(ceil.Div(d.quota.reset, time.Second), 10))
	if !draft10 || d.quota.q == 0 {
		return h
	}
	name := structured(d.policy)
	if d.quota.window > 0 {
		h.Set("RateLimit-Policy", fmt.Sprintf("%s;q=%d;w=%d", name, d.quota.q, d.quota.window))
	} else {
		h.Set("RateLimit-Policy", fmt.Sprintf("%s;q=%d;qu=%q", name, d.quota.q, concurrencyUnits))
	}
	// The time must be that of Retry-After.
	h.Set("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", name, d.quota.remaining, ceil.Div(d.wait, time.Second)))
	return h
}

// structured writes a String of RFC 9651: printable ASCII, in quotation marks.
func structured(name string) string {
	b := []byte{'"'}
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// logged limits the log lines of refusals.
type logged struct {
	mu      sync.Mutex
	last    time.Time
	between int64
}

func (l *logged) refusal(log *slog.Logger, r Refusal) {
	level := slog.LevelDebug
	now := time.Now()
	l.mu.Lock()
	between := l.between
	if l.between++; now.Sub(l.last) >= time.Second {
		level, l.last, l.between = slog.LevelInfo, now, 0
	}
	l.mu.Unlock()
	if !log.Enabled(context.Background(), level) {
		return
	}
	subject := ""
	if r.Claim != (Claim{}) {
		subject = r.Claim.String()
	}
	log.LogAttrs(context.Background(), level, "gate: a handshake is refused",
		slog.String("policy", r.Policy), slog.String("ip", r.IP.String()), slog.String("subject", subject),
		slog.Duration("retry_after", r.RetryAfter), slog.String("trace_id", r.TraceID),
		slog.Int64("others_since_last_line", between), slog.Any("err", r.Err))
}

func randomUpTo(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d) + 1))
}
