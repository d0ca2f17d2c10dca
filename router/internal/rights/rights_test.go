package rights_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/rights"
)

// process is one of several that share a log.
type process struct {
	*rights.Rights
	carried []string
	await   func()
}

func start(t *testing.T, log pubsub.Log) *process {
	p := &process{Rights: new(rights.Rights)}
	p.Config = rights.Config{
		Log: log, Topic: "rights", Keep: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Carry: func(r rights.Right) func() {
			p.carried = append(p.carried, r.User+" "+r.Topics)
			return p.await
		},
	}
	if err := p.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (p *process) revoke(t *testing.T, user, topics string) pubsub.Position {
	t.Helper()
	at, err := p.Revoke(t.Context(), rights.Right{User: user, Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		topics, topic string
		want          bool
	}{
		{"room:a", "room:a", true}, {"room:a", "room:ab", false}, {"room:*", "room:a", true}, {"room:*", "room:", true},
		{"room:*", "hall", false}, {"*", "anything", true}, {"", "", true},
	} {
		if got := (rights.Right{Topics: c.topics}).Covers(c.topic); got != c.want {
			t.Errorf("%q covers %q: %t", c.topics, c.topic, got)
		}
	}
}

// Each process carries out what is revoked after it has started, once and in order; each knows what was revoked before and after
// a mark of any of them.
func TestRevocationsOfAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.NewBroker()
		a := start(t, log)
		if a.Any() || a.Mark() != nil || a.RevokedSince("ann", "x", nil) {
			t.Error("something is revoked at the beginning")
		}
		a.revoke(t, "ann", "x")
		b := start(t, log)
		at := a.Mark()
		if *b.Mark() != *at {
			t.Errorf("marks %v and %v", b.Mark(), at)
		}
		last := b.revoke(t, "ann", "room:*")
		b.revoke(t, "bob", "*")
		synctest.Wait()
		if want := []string{"ann x", "ann room:*", "bob *"}; !slices.Equal(a.carried, want) || !slices.Equal(b.carried, want[1:]) {
			t.Errorf("carried out: %q and %q", a.carried, b.carried)
		}
		for _, p := range []*process{a, b} {
			for _, c := range []struct {
				user, topic string
				since       *rights.Mark
				want        bool
			}{
				{"ann", "x", nil, true}, {"ann", "x", at, false}, {"ann", "room:1", at, true}, {"ann", "room:1", p.Mark(), false},
				{"ann", "hall", nil, false}, {"bob", "x", at, true}, {"eve", "x", nil, false},
				{"ann", "x", &rights.Mark{Epoch: at.Epoch + 1, Offset: 100}, true}, // of a log that was lost
			} {
				if got := p.RevokedSince(c.user, c.topic, c.since); got != c.want {
					t.Errorf("%s has lost %s since %v: %t", c.user, c.topic, c.since, got)
				}
			}
			if err := p.Carried(t.Context(), last); err != nil {
				t.Error(err)
			}
		}
	})
}

// Revoke and Carried wait until nothing is queued any more.
func TestRevokeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memory.NewBroker())
		p.await = func() { time.Sleep(time.Second) }
		begin := time.Now()
		at := p.revoke(t, "ann", "x")
		if took := time.Since(begin); took != time.Second {
			t.Errorf("Revoke takes %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := p.Revoke(ctx, rights.Right{User: "ann", Topics: "x"}); errors.CodeOf(err) != errors.Unavailable {
			t.Errorf("without time for it: %v", err)
		}
		time.Sleep(time.Second)
		if err := p.Carried(t.Context(), at); err != nil {
			t.Error(err)
		}
	})
}

// What this version does not understand is not taken for carried out.
func TestARevocationThatIsNotUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.NewBroker()
		p := start(t, log)
		at, err := log.Append(t.Context(), pubsub.Message{Topic: "rights", Frame: []byte(`{"who":"ann"}`)}, pubsub.History{Messages: 9, Bytes: 999, Age: time.Hour}, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Carried(ctx, at); errors.CodeOf(err) != errors.Unavailable {
			t.Errorf("Carried: %v", err)
		}
		p.revoke(t, "ann", "x") // the next one is
	})
}

// Of those that are not kept any more it is not known what they have revoked.
func TestMostRevocations(t *testing.T) {
	p := start(t, memory.NewBroker())
	p.revoke(t, "ann", "x")
	first := p.Mark()
	for i := 1; i < rights.Most; i++ {
		p.revoke(t, fmt.Sprint("user", i), "x")
	}
	if p.RevokedSince("eve", "x", nil) {
		t.Error("all are known, and a right is taken for revoked")
	}
	p.revoke(t, "bob", "x")
	if !p.RevokedSince("eve", "x", nil) {
		t.Error("one is forgotten, and a ticket of before it is valid")
	}
	if p.RevokedSince("eve", "x", first) || p.RevokedSince("ann", "x", first) || !p.RevokedSince("bob", "x", first) {
		t.Error("what is known is not found out")
	}
}

// After Close nothing begins.
func TestClose(t *testing.T) {
	p := &process{Rights: new(rights.Rights)}
	p.Config.Log = memory.NewBroker()
	p.Close()
	if err := p.Await(t.Context()); err == nil {
		t.Error("Await begins to follow the log after Close")
	}
}
