package postgres_test

import (
	"bytes"
	"testing"

	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/idempotency/idempotencytest"
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
