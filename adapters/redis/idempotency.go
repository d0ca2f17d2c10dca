package redis

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/idempotency"
	"github.com/wskit/wskit/internal/given"
	"github.com/wskit/wskit/internal/outage"
)

//go:embed idempotency.lua
var idempotencyScript string

// answers are what messages with a key were answered.
type answers struct {
	client goredis.UniversalClient
	opts   IdempotencyOptions
	script *goredis.Script
	outage outage.Reporter
}

// IdempotencyOptions configure what [NewIdempotency] returns. The zero value works.
type IdempotencyOptions struct {
	// Prefix begins the names of all keys, so that several applications may share a
	// Redis. Letters, digits, '.', '_', '-' and '/', 64 at most.
	//
	// Default: "wskit".
	Prefix string

	// MaxPerSubject is how many keys of one subject are kept. Another is refused with
	// [idempotency.ErrFull]. For all subjects together, set maxmemory of Redis.
	//
	// Default: 1,000.
	MaxPerSubject int

	// MaxBytesPerSubject is how many bytes the answers of one subject have together. Another is
	// refused with [idempotency.ErrFull]; a message whose answer did not fit is not handled again.
	//
	// Default: 4 MiB.
	MaxBytesPerSubject int

	// Timeout is the longest that a call waits for Redis.
	//
	// Default: 1 s.
	Timeout time.Duration

	// Logger gets a line, with the cause, when calls begin to fail, and another when they work
	// again.
	//
	// Default: slog.Default().
	Logger *slog.Logger

	// OnOutage is called at the same times, for the component "idempotency". It is called by one goroutine, never under
	// a lock, so it may block; until it returns, only the latest change is kept. Its panics are logged.
	//
	// Default: none.
	OnOutage func(errors.Outage)
}

// NewIdempotency returns an [idempotency.Store] on a client of any kind, which stays the caller's: [Store].Client is one.
// For calls to end when their context does, the client needs ContextTimeoutEnabled. NewIdempotency panics when an option
// is invalid.
//
// Processes that share a Redis and a prefix share their keys. Each call is one script on the server that has the key, by
// that server's clock.
//
// A server that comes back empty, or a replica that was promoted before it had the last answers,
// has lost keys: a message that is sent again is then handled again. The same holds for keys whose
// time has passed because the server's clock was set forward. A full server fails ("OOM") where
// maxmemory-policy is noeviction; under any other policy it deletes keys. A key takes about 500
// bytes and its answer.
func NewIdempotency(client goredis.UniversalClient, options ...IdempotencyOptions) idempotency.Store {
	opts := given.Must("redis", "NewIdempotency", options)
	topologyOf("NewIdempotency", client) // panics for a client of no known kind
	opts.Prefix = cmp.Or(opts.Prefix, "wskit")
	opts.MaxPerSubject = cmp.Or(opts.MaxPerSubject, 1000)
	opts.MaxBytesPerSubject = cmp.Or(opts.MaxBytesPerSubject, 4<<20)
	opts.Timeout = cmp.Or(opts.Timeout, time.Second)
	err := checkPrefix("IdempotencyOptions", opts.Prefix)
	switch {
	case opts.MaxPerSubject < 0:
		err = fmt.Errorf("redis: IdempotencyOptions.MaxPerSubject is %d; it must be positive (0 for 1000)", opts.MaxPerSubject)
	case opts.MaxBytesPerSubject < 0:
		err = fmt.Errorf("redis: IdempotencyOptions.MaxBytesPerSubject is %d; it must be positive (0 for 4 MiB)", opts.MaxBytesPerSubject)
	case opts.Timeout < 0:
		err = fmt.Errorf("redis: IdempotencyOptions.Timeout is %v; it must be positive (0 for 1s)", opts.Timeout)
	}
	if err != nil {
		panic(err.Error())
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &answers{client: client, opts: opts, script: goredis.NewScript(idempotencyScript), outage: outage.Reporter{
		Component: "idempotency", Name: opts.Prefix, Log: opts.Logger, Hook: opts.OnOutage, Settle: time.Second,
		Failing: "wskit: redis: idempotency keys cannot be read or written",
		Working: "wskit: redis: idempotency keys are read and written again",
	}}
}

// Begin implements [idempotency.Store].
func (s *answers) Begin(ctx context.Context, c idempotency.Claim, lease time.Duration) (idempotency.State, []byte, error) {
	word, answer, err := s.run(ctx, "begin", c, lease, nil)
	if err != nil {
		return 0, nil, err
	}
	switch word {
	case "claimed":
		return idempotency.Claimed, nil, nil
	case "running":
		return idempotency.Running, nil, nil
	case "answered":
		return idempotency.Answered, []byte(answer), nil
	case "mismatch":
		return idempotency.Mismatch, nil, nil
	}
	return 0, nil, fmt.Errorf("redis: the script replied %q", word)
}

// Renew implements [idempotency.Store].
func (s *answers) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	_, _, err := s.run(ctx, "renew", c, lease, nil)
	return err
}

// Finish implements [idempotency.Store].
func (s *answers) Finish(ctx context.Context, c idempotency.Claim, answer []byte, keep time.Duration) error {
	_, _, err := s.run(ctx, "finish", c, keep, answer)
	return err
}

// Release implements [idempotency.Store].
func (s *answers) Release(ctx context.Context, c idempotency.Claim) error {
	_, _, err := s.run(ctx, "release", c, 0, nil)
	return err
}

// run runs the script. The client may repeat it: what was done already is done once.
func (s *answers) run(ctx context.Context, operation string, c idempotency.Claim, lasts time.Duration, answer []byte) (word, kept string, err error) {
	if err := c.Check(); err != nil {
		return "", "", err
	}
	within, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	index := key(s.opts.Prefix, "idempotency", c.Subject)
	keys := []string{index + ":" + c.Key, index, key(s.opts.Prefix, "idempotency-bytes", c.Subject)}
	args := []any{operation, c.Digest, c.Execution, max(1, lasts.Milliseconds()), s.opts.MaxPerSubject, s.opts.MaxBytesPerSubject}
	if answer != nil || operation == "finish" {
		args = append(args, answer)
	}
	reply, err := s.script.Run(within, s.client, keys, args...).StringSlice()
	switch {
	case err == nil:
		s.outage.Works()
	case ctx.Err() == nil:
		s.outage.Failed(err)
	}
	switch {
	case err != nil:
		return "", "", fmt.Errorf("redis: idempotency: %w", err)
	case len(reply) == 0:
		return "", "", fmt.Errorf("redis: the script replied nothing")
	case reply[0] == "full":
		return "", "", idempotency.ErrFull
	case reply[0] == "lost":
		return "", "", idempotency.ErrLost
	case len(reply) == 2:
		kept = reply[1]
	}
	return reply[0], kept, nil
}
