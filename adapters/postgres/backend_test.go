package postgres_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/idempotency/idempotencytest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

func TestPresence(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	pubsubtest.RunPresence(t, func(t *testing.T, n int) []pubsub.Presence {
		all := make([]pubsub.Presence, n)
		for i := range all {
			all[i] = open(t, s.URL(), postgres.Options{MaxConns: 4}).Presence
		}
		return all
	})
}

// Of more members than MaxMembers that many are listed, and a report says that it has not all. Changes of any follow.
func TestMembersAreBounded(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	const most = 10
	at := open(t, s.URL(), postgres.Options{MaxMembers: most}).Presence
	join := func(topic string, members int) {
		t.Helper()
		for i := range members {
			if err := at.Join(t.Context(), topic, pubsub.Member{ID: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	watch := func(topic string) <-chan pubsub.PresenceReport {
		t.Helper()
		reports := make(chan pubsub.PresenceReport, 100)
		report := func(r pubsub.PresenceReport) { reports <- r }
		sub, err := at.(pubsub.PresenceWatcher).Watch(t.Context(), topic, report)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Close() })
		return reports
	}
	join("few", most-1)
	if r := <-watch("few"); !r.Complete || len(r.Present) != most-1 {
		t.Errorf("of %d members the first report has %d, Complete is %t", most-1, len(r.Present), r.Complete)
	}
	join("many", 3*most)
	if all, err := at.Members(t.Context(), "many"); err != nil || len(all) != most {
		t.Errorf("%d members are listed, %v; want %d", len(all), err, most)
	}
	reports := watch("many")
	if r := <-reports; r.Complete || len(r.Present) != most {
		t.Errorf("of %d members the first report has %d, Complete is %t", 3*most, len(r.Present), r.Complete)
	}
	for i := range 3 * most {
		at.Leave("many", fmt.Sprint(i))
	}
	for left := 0; left < 3*most; {
		r := poll.Receive(t, reports, "the members to leave")
		if len(r.Present) > 0 || r.Complete {
			t.Errorf("the report of a change is %+v", r)
		}
		left += len(r.Left)
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	idempotencytest.Run(t, func(t *testing.T, n int) []idempotency.Store {
		all := make([]idempotency.Store, n)
		for i := range all {
			all[i] = open(t, s.URL(), postgres.Options{MaxConns: 4}).Idempotency
		}
		return all
	})
}

// All processes have the same secret, and different ones for different names. A backend whose database is away says so.
func TestSecretAndCheck(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a, b := open(t, s.URL(), postgres.Options{}), open(t, s.URL(), postgres.Options{})
	var secrets [][]byte
	for _, name := range []string{"tickets", "tickets", "other"} {
		secret, err := a.Secret(t.Context(), name)
		if err != nil || len(secret) < 32 {
			t.Fatalf("%x, %v", secret, err)
		}
		secrets = append(secrets, secret)
		a, b = b, a
	}
	if !bytes.Equal(secrets[0], secrets[1]) || bytes.Equal(secrets[0], secrets[2]) {
		t.Errorf("the secrets are %x", secrets)
	}
	if err := a.Check(t.Context()); err != nil {
		t.Error(err)
	}
	s.Kill()
	if a.Check(t.Context()) == nil {
		t.Error("a backend whose server was killed says that it works")
	}
	s.Run()
}
