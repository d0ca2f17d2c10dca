package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/wskit/wskit/idempotency"
)

// answers is an [idempotency.Store]. Each call is one function in one transaction, so it may be repeated, and what it
// has returned outlives a crash of the server.
type answers struct{ *database }

// Begin implements [idempotency.Store].
func (s answers) Begin(
	ctx context.Context, c idempotency.Claim, lease time.Duration,
) (idempotency.State, []byte, error) {
	word, answer, err := s.run(ctx, "begin", c, lease, nil)
	if err != nil {
		return 0, nil, err
	}
	state, ok := map[string]idempotency.State{
		"claimed": idempotency.Claimed, "running": idempotency.Running, "answered": idempotency.Answered, "mismatch": idempotency.Mismatch,
	}[word]
	if !ok {
		return 0, nil, fmt.Errorf("postgres: the function answer returned %q", word)
	}
	return state, answer, nil
}

// Renew implements [idempotency.Store].
func (s answers) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	_, _, err := s.run(ctx, "renew", c, lease, nil)
	return err
}

// Finish implements [idempotency.Store].
func (s answers) Finish(ctx context.Context, c idempotency.Claim, answer []byte, keep time.Duration) error {
	_, _, err := s.run(ctx, "finish", c, keep, notNil(answer))
	return err
}

// Release implements [idempotency.Store].
func (s answers) Release(ctx context.Context, c idempotency.Claim) error {
	_, _, err := s.run(ctx, "release", c, 0, nil)
	return err
}

func (s answers) run(
	ctx context.Context, operation string, c idempotency.Claim, lasts time.Duration, answer []byte,
) (word string, kept []byte, err error) {
	if err := c.Check(); err != nil {
		return "", nil, err
	}
	err = s.call(ctx, "idempotency", func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.sql.answer, operation, []byte(c.Subject), []byte(c.Key), []byte(c.Digest), []byte(c.Execution),
			lasts.Microseconds(), answer, s.o.MaxAnswers, s.o.MaxAnswerBytes).
			Scan(&word, &kept)
	})
	switch {
	case err != nil:
		return "", nil, err
	case word == "full":
		return "", nil, idempotency.ErrFull
	case word == "lost":
		return "", nil, idempotency.ErrLost
	}
	return word, kept, nil
}

var _ idempotency.Store = answers{}
