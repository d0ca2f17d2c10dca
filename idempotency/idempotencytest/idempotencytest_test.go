package idempotencytest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/idempotency/idempotencytest"
	"github.com/wskit/wskit/internal/suitetest"
)

// store is the simplest store that is right: a lock and a map. Its faults make it wrong.
type store struct {
	fault fault
	mu    sync.Mutex
	m     map[string]*entry
	bytes int // of all answers
}

type entry struct {
	digest, execution string
	answer            []byte // nil: claimed
	until             time.Time
	ctx               context.Context // of the claim
}

// A fault is one that a store could have.
type fault struct {
	name string
	// part is the part of the suite that must find it, and rule what it must say.
	part, rule string

	key            func(c idempotency.Claim) string
	checkThenSet   bool // in two steps
	aliases        bool // keeps the caller's buffer
	trims          bool
	ignoresDigest  bool
	neverEnds      bool // claims
	leaseForAll    bool // the answer is kept as long as the claim
	keepsForEver   bool
	releasesAny    bool
	releasesAnswer bool
	forgetsRelease bool
	notRepeatable  bool
	renewsNothing  bool
	overwrites     bool // a lost execution's answer counts
	strictFinish   bool // an overdue claim is lost
	takesAnything  bool
	ctxEndsClaim   bool
	most           int // keys of all subjects together
	mostBytes      int // of all answers together
	endsWhenFull   bool
}

// over compares with the real clock, as the suite waits for it.
func over(until time.Time) bool { return !time.Now().Before(until) }

func (s *store) of(c idempotency.Claim) (string, *entry) {
	key := fmt.Sprintf("%q %q", c.Subject, c.Key)
	if s.fault.key != nil {
		key = s.fault.key(c)
	}
	e := s.m[key]
	if e != nil && s.fault.ctxEndsClaim && e.answer == nil && e.ctx.Err() != nil {
		delete(s.m, key)
		e = nil
	}
	if e != nil && over(e.until) {
		if e.answer == nil && !s.fault.neverEnds || e.answer != nil && !s.fault.keepsForEver {
			delete(s.m, key)
			e = nil
		}
	}
	return key, e
}

func (s *store) Begin(ctx context.Context, c idempotency.Claim, lease time.Duration) (idempotency.State, []byte, error) {
	if err := c.Check(); err != nil && !s.fault.takesAnything {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.of(c)
	if s.fault.checkThenSet && e == nil {
		s.mu.Unlock()
		for range 100 { // others check meanwhile
			runtime.Gosched()
		}
		s.mu.Lock()
	}
	switch {
	case e == nil && s.fault.most > 0 && len(s.m) >= s.fault.most:
		return 0, nil, idempotency.ErrFull
	case e == nil:
		s.m[key] = &entry{digest: c.Digest, execution: c.Execution, until: time.Now().Add(lease), ctx: ctx}
		return idempotency.Claimed, nil, nil
	case e.digest != c.Digest && !s.fault.ignoresDigest:
		return idempotency.Mismatch, nil, nil
	case e.answer != nil:
		return idempotency.Answered, append([]byte{}, e.answer...), nil
	case e.execution != c.Execution || s.fault.notRepeatable:
		return idempotency.Running, nil, nil
	}
	e.until = time.Now().Add(lease)
	return idempotency.Claimed, nil, nil
}

func (s *store) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.of(c)
	switch {
	case s.fault.renewsNothing:
		return nil
	case e == nil && s.fault.strictFinish:
		return idempotency.ErrLost
	case e == nil:
		s.m[key] = &entry{digest: c.Digest, execution: c.Execution, until: time.Now().Add(lease), ctx: ctx}
		return nil
	case e.execution != c.Execution || e.answer != nil:
		return idempotency.ErrLost
	}
	e.until = time.Now().Add(lease)
	return nil
}

func (s *store) Finish(_ context.Context, c idempotency.Claim, answer []byte, keep time.Duration) error {
	if err := c.Check(); err != nil && !s.fault.takesAnything {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.of(c)
	switch {
	case e != nil && e.execution != c.Execution && !s.fault.overwrites:
		return idempotency.ErrLost
	case e == nil && s.fault.strictFinish:
		return idempotency.ErrLost
	case e != nil && e.answer != nil && s.fault.notRepeatable:
		return errors.New("finished twice")
	case s.fault.mostBytes > 0 && s.bytes+len(answer) > s.fault.mostBytes && (len(answer) > 1 || s.fault.endsWhenFull):
		return idempotency.ErrFull
	}
	s.bytes += len(answer)
	kept := append([]byte{}, answer...)
	if s.fault.aliases && len(answer) > 0 {
		kept = answer
	}
	if s.fault.trims {
		kept = append([]byte{}, bytes.TrimSpace(kept)...)
	}
	until := time.Now().Add(keep)
	if s.fault.leaseForAll && e != nil {
		until = e.until
	}
	s.m[key] = &entry{digest: c.Digest, execution: c.Execution, answer: kept, until: until}
	return nil
}

func (s *store) Release(_ context.Context, c idempotency.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, e := s.of(c)
	if e == nil || s.fault.forgetsRelease {
		return nil
	}
	if (e.execution == c.Execution || s.fault.releasesAny) && (e.answer == nil || s.fault.releasesAnswer) {
		delete(s.m, key)
	}
	return nil
}

func open(f fault) func(*testing.T, int) []idempotency.Store {
	return func(_ *testing.T, n int) []idempotency.Store {
		s := &store{fault: f, m: make(map[string]*entry)}
		all := make([]idempotency.Store, n)
		for i := range all {
			all[i] = s
		}
		return all
	}
}

func TestRightStorePasses(t *testing.T) { idempotencytest.Run(t, open(fault{})) }

var faults = []fault{
	{name: "CheckThenSet", part: "OneExecutionClaims", rule: "of all executions of a key", checkThenSet: true},
	{name: "KeepsTheBuffer", part: "TheAnswerIsKept", rule: "an answer is kept as it is", aliases: true},
	{name: "AnswerTrimmed", part: "TheAnswerIsKept", rule: "an answer is kept as it is", trims: true},
	{name: "DigestIgnored", part: "AnotherMessageUnderTheKey", rule: "another digest under a key is a Mismatch", ignoresDigest: true},
	{name: "JoinedByColon", part: "KeysAreApart", rule: "subjects and keys are any bytes",
		key: func(c idempotency.Claim) string { return c.Subject + ":" + c.Key }},
	{name: "SubjectIgnored", part: "KeysAreApart", rule: "subjects and keys are any bytes",
		key: func(c idempotency.Claim) string { return c.Key }},
	{name: "ReleaseForgotten", part: "ReleasedIsClaimedAgain", rule: "after Release the next execution claims", forgetsRelease: true},
	{name: "ReleasesOthers", part: "ReleaseConcernsItsOwnClaim", rule: "Release ends the claim of its own execution", releasesAny: true},
	{name: "ReleasesAnswers", part: "ReleaseConcernsItsOwnClaim", rule: "Release ends the claim of its own execution", releasesAnswer: true},
	{name: "NotRepeatable", part: "CallsMayBeRepeated", rule: "a call that is made again", notRepeatable: true},
	{name: "NeverEnds", part: "LeaseEnds", rule: "a claim ends with its lease", neverEnds: true},
	{name: "RenewsNothing", part: "RenewedLasts", rule: "a claim that is renewed lasts", renewsNothing: true},
	{name: "LostAnswerCounts", part: "LostClaims", rule: "an execution whose claim was taken over", overwrites: true},
	{name: "OverdueIsLost", part: "OverdueClaims", rule: "a claim whose lease was over", strictFinish: true},
	{name: "KeptForTheLease", part: "AnswersExpire", rule: "an answer is kept for its time", leaseForAll: true},
	{name: "KeptForEver", part: "AnswersExpire", rule: "an answer is kept for its time", keepsForEver: true},
	{name: "TakesAnything", part: "ClaimsAreBounded", rule: "what Claim.Check refuses is no claim", takesAnything: true},
	{name: "GoesWithContext", part: "ContextIsForTheCall", rule: "a context is for the call alone", ctxEndsClaim: true},
	{name: "OneBoundForAll", part: "SubjectsHaveShares", rule: "one subject takes no room from the keys", most: 1000},
	{name: "OneBoundForAllAnswers", part: "SubjectsHaveShares", rule: "one subject takes no room from the keys", mostBytes: 10 << 20},
	{name: "RefusesMarks", part: "SubjectsHaveShares", rule: "an answer of one byte has room", mostBytes: 10 << 20, endsWhenFull: true},
}

// Each fault is found by the part of the suite that is there for it, in a process of its own.
func TestSuiteCatches(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out := suitetest.Catches(t, 1, "^TestFaultyStore$/^"+f.part+"$", f.name)
			if !strings.Contains(out, "rule broken: "+f.rule) {
				t.Errorf("%s does not find it:\n%s", f.part, out)
			}
		})
	}
}

func TestFaultyStore(t *testing.T) {
	f := suitetest.Find(t, faults, func(f fault) string { return f.name })
	idempotencytest.SetTimeLimit(time.Second)
	idempotencytest.Run(t, open(f))
}
