// Package idempotencytest checks that an [idempotency.Store] keeps its contract.
//
// The test of a store passes a function that opens several of them, which share keys as the
// processes of one deployment do:
//
//	func TestIdempotency(t *testing.T) {
//		idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
//			stores := make([]idempotency.Store, n)
//			for i := range stores {
//				stores[i] = open(t) // connected to the same server
//			}
//			return stores
//		})
//	}
//
// For a store within one process, return the same store n times. A failure says which rule was
// broken and what happened. The suite's keys are random, so that several runs may share a server.
// Leases and keeping times run by the store's real clock: the suite waits for what must end,
// however long it takes. Run it with the race detector.
package idempotencytest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/internal/poll"
)

// timeLimit is how long the suite waits for something that must happen.
var timeLimit = 20 * time.Second

const (
	long  = time.Hour // ends in no part of the suite
	short = 50 * time.Millisecond
)

// Run runs the suite. It calls open for every part of it, for n stores that share keys; open
// registers what has to be closed with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T, n int) []idempotency.Store) {
	for _, part := range []struct {
		name   string
		stores int
		run    func(*suite)
	}{
		{"OneExecutionClaims", 3, oneClaims},
		{"TheAnswerIsKept", 3, answerIsKept},
		{"AnotherMessageUnderTheKey", 2, anotherMessage},
		{"KeysAreApart", 2, keysAreApart},
		{"ReleasedIsClaimedAgain", 2, released},
		{"ReleaseConcernsItsOwnClaim", 2, releaseOfOthers},
		{"CallsMayBeRepeated", 2, repeated},
		{"LeaseEnds", 2, leaseEnds},
		{"RenewedLasts", 2, renewedLasts},
		{"LostClaims", 2, lostClaims},
		{"OverdueClaims", 2, overdueClaims},
		{"AnswersExpire", 2, answersExpire},
		{"ClaimsAreBounded", 1, claimsAreBounded},
		{"ContextIsForTheCall", 1, contextIsForTheCall},
		{"SubjectsHaveShares", 2, subjectsHaveShares},
	} {
		t.Run(part.name, func(t *testing.T) {
			stores := open(t, part.stores)
			if len(stores) != part.stores {
				t.Fatalf("idempotencytest: open returned %d stores, asked for %d", len(stores), part.stores)
			}
			part.run(&suite{T: t, stores: stores, subject: "idempotencytest-" + rand.Text()})
		})
	}
}

// A suite is one part of the suite while it runs.
type suite struct {
	*testing.T
	stores  []idempotency.Store
	subject string
}

// claim is a new execution for a key of the part's own.
func (s *suite) claim(key string) idempotency.Claim {
	return idempotency.Claim{Subject: s.subject, Key: key, Digest: "digest", Execution: rand.Text()}
}

func (s *suite) broken(rule, format string, args ...any) {
	s.Helper()
	s.Fatalf("rule broken: %s\n%s", rule, fmt.Sprintf(format, args...))
}

const works = "a store that is up answers"

func (s *suite) begin(at int, c idempotency.Claim, lease time.Duration) (idempotency.State, string) {
	s.Helper()
	state, answer, err := s.stores[at%len(s.stores)].Begin(context.Background(), c, lease)
	if err != nil {
		s.broken(works, "Begin: %v", err)
	}
	return state, string(answer)
}

func (s *suite) expect(rule string, at int, c idempotency.Claim, want idempotency.State, answer string) {
	s.Helper()
	if state, got := s.begin(at, c, long); state != want || got != answer {
		s.broken(rule, "Begin returned %s with the answer %.100q; expected %s with %.100q", text(state), got, text(want), answer)
	}
}

func (s *suite) finish(at int, c idempotency.Claim, answer string, keep time.Duration) {
	s.Helper()
	if err := s.stores[at%len(s.stores)].Finish(context.Background(), c, []byte(answer), keep); err != nil {
		s.broken(works, "Finish: %v", err)
	}
}

func (s *suite) release(at int, c idempotency.Claim) {
	s.Helper()
	if err := s.stores[at%len(s.stores)].Release(context.Background(), c); err != nil {
		s.broken(works, "Release: %v", err)
	}
}

// becomes waits until a new execution claims the key, and returns it.
func (s *suite) becomes(rule string, at int, key string) idempotency.Claim {
	s.Helper()
	c := s.claim(key)
	var state idempotency.State
	if !poll.Within(timeLimit, func() bool { state, _ = s.begin(at, c, long); return state == idempotency.Claimed }) {
		s.broken(rule, "after %v Begin still returns %s", timeLimit, text(state))
	}
	return c
}

func text(s idempotency.State) string {
	switch s {
	case idempotency.Claimed:
		return "Claimed"
	case idempotency.Running:
		return "Running"
	case idempotency.Answered:
		return "Answered"
	case idempotency.Mismatch:
		return "Mismatch"
	}
	return fmt.Sprintf("State(%d)", s)
}

func oneClaims(s *suite) {
	const rule = "of all executions of a key, in all processes, one claims it"
	for round := range 20 {
		key := fmt.Sprint("key", round)
		var mu sync.Mutex
		count := make(map[idempotency.State]int)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				state, _, err := s.stores[i%len(s.stores)].Begin(context.Background(), s.claim(key), long)
				if err != nil {
					s.Errorf("rule broken: %s\nBegin: %v", works, err)
				}
				mu.Lock()
				defer mu.Unlock()
				count[state]++
			})
		}
		wg.Wait()
		if count[idempotency.Claimed] != 1 || count[idempotency.Running] != 11 {
			s.broken(rule, "of 12 executions %d got Claimed and %d got Running", count[idempotency.Claimed], count[idempotency.Running])
		}
	}
}

const kept = "an answer is kept as it is, and Begin returns it in every process"

func answerIsKept(s *suite) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, answer := range []string{"", "a", `{"text":"ü😀"}`, string(all), " \r\n\x00", strings.Repeat("x", 256<<10)} {
		key := fmt.Sprint("key", i)
		c := s.claim(key)
		s.expect("a new key is claimed", i, c, idempotency.Claimed, "")
		given := []byte(answer)
		if err := s.stores[i%len(s.stores)].Finish(context.Background(), c, given, long); err != nil {
			s.broken(works, "Finish: %v", err)
		}
		for j := range given { // the caller's buffer is used again
			given[j] = '#'
		}
		for at := range s.stores {
			s.expect(kept, at, s.claim(key), idempotency.Answered, answer)
		}
	}
	// What Begin returns belongs to the caller.
	_, first, _ := s.stores[0].Begin(context.Background(), s.claim("key1"), long)
	copy(first, "#")
	s.expect(kept, 0, s.claim("key1"), idempotency.Answered, "a")
}

func anotherMessage(s *suite) {
	const rule = "another digest under a key is a Mismatch, and changes nothing"
	c, other := s.claim("key"), s.claim("key")
	other.Digest = "other"
	s.expect("a new key is claimed", 0, c, idempotency.Claimed, "")
	s.expect(rule, 1, other, idempotency.Mismatch, "")
	s.finish(0, c, "answer", long)
	s.expect(rule, 1, other, idempotency.Mismatch, "")
	s.expect(kept, 1, s.claim("key"), idempotency.Answered, "answer")
}

func keysAreApart(s *suite) {
	const rule = "subjects and keys are any bytes, and differ where a byte does"
	parts := []string{
		"a", "A", "a ", " a", "a:", ":a", "a:b", "b", ":", "::", "{a}", "{a", "a}", "}:", "}", "{}", "%", "%7D", "*", "a*", "?", "[a]", `\`,
		"a\n", "a\x00", "\x00a", "\xff", "ä", "a\u0308", strings.Repeat("x", 127), strings.Repeat("x", 128),
	}
	type name struct{ subject, key string }
	var names []name
	for _, subject := range parts[:24] {
		for _, key := range parts {
			names = append(names, name{subject, key})
		}
	}
	run := rand.Text()[:8]
	claim := func(n name) idempotency.Claim {
		c := s.claim(n.key)
		c.Subject = run + n.subject
		return c
	}
	for i, n := range names {
		c := claim(n)
		s.expect(rule, i, c, idempotency.Claimed, "")
		s.finish(i, c, fmt.Sprint(i), long)
	}
	for i, n := range names {
		s.expect(rule, i+1, claim(n), idempotency.Answered, fmt.Sprint(i))
	}
}

func released(s *suite) {
	const rule = "after Release the next execution claims the key"
	c := s.claim("key")
	s.expect("a new key is claimed", 0, c, idempotency.Claimed, "")
	s.release(1, c)
	other := s.claim("key")
	other.Digest = "other" // the key is as new
	s.expect(rule, 1, other, idempotency.Claimed, "")
}

func releaseOfOthers(s *suite) {
	const rule = "Release ends the claim of its own execution, and no answer"
	c := s.claim("key")
	s.release(0, c) // is nothing yet
	s.expect("a new key is claimed", 0, c, idempotency.Claimed, "")
	s.release(1, s.claim("key"))
	s.expect(rule, 1, s.claim("key"), idempotency.Running, "")
	s.finish(0, c, "answer", long)
	s.release(0, c)
	s.expect(rule, 1, s.claim("key"), idempotency.Answered, "answer")
}

func repeated(s *suite) {
	const rule = "a call that is made again after an unknown outcome does what it did, once"
	c := s.claim("key")
	s.expect(rule, 0, c, idempotency.Claimed, "")
	s.expect(rule, 1, c, idempotency.Claimed, "")
	s.finish(0, c, "answer", long)
	s.finish(1, c, "answer", long)
	s.expect(kept, 0, s.claim("key"), idempotency.Answered, "answer")
	// Begin that arrives after Finish says what is so.
	s.expect(rule, 0, c, idempotency.Answered, "answer")
}

const ends = "a claim ends with its lease: the next execution claims the key"

func leaseEnds(s *suite) {
	if state, _ := s.begin(0, s.claim("key"), short); state != idempotency.Claimed {
		s.broken("a new key is claimed", "Begin returned %s", text(state))
	}
	s.becomes(ends, 1, "key")
}

func renewedLasts(s *suite) {
	const rule = "a claim that is renewed lasts for another lease"
	c, begun := s.claim("key"), s.claim("begun")
	for _, c := range []idempotency.Claim{c, begun} {
		if state, _ := s.begin(0, c, short); state != idempotency.Claimed {
			s.broken("a new key is claimed", "Begin returned %s", text(state))
		}
	}
	if err := s.stores[0].Renew(context.Background(), c, long); err != nil {
		s.broken(works, "Renew: %v", err)
	}
	s.expect("Begin of the same execution renews its claim", 1, begun, idempotency.Claimed, "")
	// A claim of the same length that was made later is over before.
	if state, _ := s.begin(0, s.claim("witness"), short); state != idempotency.Claimed {
		s.broken("a new key is claimed", "Begin returned %s", text(state))
	}
	s.becomes(ends, 1, "witness")
	s.expect(rule, 1, s.claim("key"), idempotency.Running, "")
	s.expect("Begin of the same execution renews its claim", 1, s.claim("begun"), idempotency.Running, "")
}

func lostClaims(s *suite) {
	const rule = "an execution whose claim was taken over gets ErrLost, and changes nothing"
	first := s.claim("key")
	if state, _ := s.begin(0, first, short); state != idempotency.Claimed {
		s.broken("a new key is claimed", "Begin returned %s", text(state))
	}
	second := s.becomes(ends, 1, "key")
	lost := func(when string) {
		s.Helper()
		if err := s.stores[0].Renew(context.Background(), first, long); !errors.Is(err, idempotency.ErrLost) {
			s.broken(rule, "%s: Renew: %v", when, err)
		}
		if err := s.stores[0].Finish(context.Background(), first, []byte("late"), long); !errors.Is(err, idempotency.ErrLost) {
			s.broken(rule, "%s: Finish: %v", when, err)
		}
		s.release(0, first)
	}
	lost("while the other execution runs")
	s.expect(rule, 0, s.claim("key"), idempotency.Running, "")
	s.finish(1, second, "answer", long)
	lost("after the other execution's answer")
	s.expect(rule, 0, s.claim("key"), idempotency.Answered, "answer")
}

func overdueClaims(s *suite) {
	const rule = "a claim whose lease was over can be renewed and finished where no other execution has the key"
	renewed, finished := s.claim("renewed"), s.claim("finished")
	for _, c := range []idempotency.Claim{renewed, finished, s.claim("witness")} {
		if state, _ := s.begin(0, c, short); state != idempotency.Claimed {
			s.broken("a new key is claimed", "Begin returned %s", text(state))
		}
	}
	s.becomes(ends, 1, "witness")
	if err := s.stores[0].Renew(context.Background(), renewed, long); err != nil {
		s.broken(rule, "Renew: %v", err)
	}
	s.expect(rule, 1, s.claim("renewed"), idempotency.Running, "")
	s.finish(0, finished, "answer", long)
	s.expect(rule, 1, s.claim("finished"), idempotency.Answered, "answer")
}

func answersExpire(s *suite) {
	const rule = "an answer is kept for its time, whatever its claim's lease was"
	c, stays := s.claim("key"), s.claim("stays")
	s.expect("a new key is claimed", 0, c, idempotency.Claimed, "")
	if state, _ := s.begin(0, stays, short); state != idempotency.Claimed {
		s.broken("a new key is claimed", "Begin returned %s", text(state))
	}
	s.finish(0, stays, "answer", long)
	s.finish(0, c, "answer", short)
	s.becomes(rule, 1, "key")
	s.expect(rule, 1, s.claim("stays"), idempotency.Answered, "answer")
}

func claimsAreBounded(s *suite) {
	const rule = "what Claim.Check refuses is no claim"
	for _, change := range []func(*idempotency.Claim, string){
		func(c *idempotency.Claim, v string) { c.Subject = v },
		func(c *idempotency.Claim, v string) { c.Key = v },
		func(c *idempotency.Claim, v string) { c.Digest = v },
		func(c *idempotency.Claim, v string) { c.Execution = v },
	} {
		for _, v := range []string{"", strings.Repeat("x", idempotency.MaxField+1)} {
			c := s.claim("key")
			change(&c, v)
			if state, _, err := s.stores[0].Begin(context.Background(), c, long); err == nil {
				s.broken(rule, "Begin of %.300q returned %s", fmt.Sprint(c), text(state))
			}
			if err := s.stores[0].Finish(context.Background(), c, nil, long); err == nil {
				s.broken(rule, "Finish of %.300q has no error", fmt.Sprint(c))
			}
		}
		c := s.claim("full")
		c.Subject += rand.Text()
		change(&c, string(bytes.Repeat([]byte("x"), idempotency.MaxField)))
		s.expect("a field may have MaxField bytes", 0, c, idempotency.Claimed, "")
		s.release(0, c)
	}
}

func contextIsForTheCall(s *suite) {
	const rule = "a context is for the call alone: a claim lasts"
	ctx, cancel := context.WithCancel(context.Background())
	c := s.claim("key")
	if state, _, err := s.stores[0].Begin(ctx, c, long); err != nil || state != idempotency.Claimed {
		s.broken("a new key is claimed", "Begin returned %s, %v", text(state), err)
	}
	cancel()
	for range 100 { // what the end of a context sets off may run a few calls later
		s.expect(rule, 0, s.claim("key"), idempotency.Running, "")
		runtime.Gosched()
	}
	s.finish(0, c, "answer", long)
	s.expect(kept, 0, s.claim("key"), idempotency.Answered, "answer")
}

// subjectsHaveShares takes for one subject as much as the store lets it have, up to about 100 MB.
func subjectsHaveShares(s *suite) {
	const rule = "one subject takes no room from the keys and answers of another"
	answer := strings.Repeat("x", 64<<10)
	refused := false
	for i := range 1500 {
		c := s.claim(fmt.Sprint("key", i))
		state, _, err := s.stores[0].Begin(context.Background(), c, long)
		if errors.Is(err, idempotency.ErrFull) {
			break
		}
		if err != nil || state != idempotency.Claimed {
			s.broken("a new key is claimed", "Begin returned %s, %v", text(state), err)
		}
		kept := answer
		if refused {
			kept = "x"
		}
		err = s.stores[0].Finish(context.Background(), c, []byte(kept), long)
		if errors.Is(err, idempotency.ErrFull) && !refused {
			refused = true
			const small = "an answer of one byte has room when a larger one has none"
			if err := s.stores[0].Finish(context.Background(), c, []byte("x"), long); err != nil {
				s.broken(small, "Finish: %v", err)
			}
			s.expect(small, 1, c, idempotency.Answered, "x")
		} else if err != nil {
			s.broken(works, "Finish: %v", err)
		}
	}
	c := s.claim("key")
	c.Subject += " another"
	state, _, err := s.stores[1].Begin(context.Background(), c, long)
	if err != nil || state != idempotency.Claimed {
		s.broken(rule, "Begin for another subject returned %s, %v", text(state), err)
	}
	if err := s.stores[1].Finish(context.Background(), c, []byte(answer), long); err != nil {
		s.broken(rule, "Finish for another subject: %v", err)
	}
	s.expect(rule, 0, c, idempotency.Answered, answer)
}
