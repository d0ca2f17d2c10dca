package ingress_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/inbound"
)

func TestContextOfALiteral(t *testing.T) {
	var c ingress.Context
	if c.Context() == nil || c.Context().Err() != nil || c.SentType() != "" {
		t.Errorf("context %v, type %q", c.Context(), c.SentType())
	}
	if err := ingress.Pass(&c); err != nil || !c.State.Passed {
		t.Errorf("error %v, passed %v", err, c.State.Passed)
	}
}

func TestSentTypeIsCut(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 1 << 20} {
		c := ingress.Context{State: inbound.State{SentType: []byte(strings.Repeat("x", n))}}
		if got := len(c.SentType()); got != min(n, 128) {
			t.Errorf("%d bytes sent, SentType has %d", n, got)
		}
	}
}

func TestRejectAllocatesNothing(t *testing.T) {
	c := new(ingress.Context)
	var sink error
	if n := testing.AllocsPerRun(100, func() {
		sink = c.Reject(errors.LimitExceeded{Kind: errors.LimitRate, Observed: 1, Limit: 10, RetryAfter: time.Second})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if e, ok := errors.AsType[*errors.LimitExceeded](sink); !ok || e.Limit != 10 {
		t.Errorf("Reject returned %v", sink)
	}
}

func TestRejectIsOverwrittenByTheNext(t *testing.T) {
	var c, other ingress.Context
	first := c.Reject(errors.LimitExceeded{Limit: 1})
	elsewhere := other.Reject(errors.LimitExceeded{Limit: 7})
	second := c.Reject(errors.LimitExceeded{Limit: 2})
	if first != second {
		t.Error("Reject made a new error")
	}
	for err, want := range map[error]int64{second: 2, elsewhere: 7} {
		if got := err.(*errors.LimitExceeded).Limit; got != want {
			t.Errorf("Limit = %d, want %d", got, want)
		}
	}
}

func TestHoldTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := new(ingress.Context).Hold(time.Minute)
		if held := time.Since(start); held != time.Minute || err != nil {
			t.Errorf("held for %v, %v", held, err)
		}
	})
}
