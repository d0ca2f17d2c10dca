// Package rights has the revocations of rights that processes share: which users have lost which topics, in the order
// of a log of the backend.
//
// Needed are the log, and a function that carries a revocation out on the connections of this process. Promised: each
// revocation that is appended after Await has returned is carried out once, in the order of the log; what was decided
// before it, here or in another process, can be told from what was decided after it, by a Mark and not by a clock.
// Methods may be called from any goroutine.
package rights

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/logfollow"
	"github.com/wskit/wskit/internal/outage"
	"github.com/wskit/wskit/pubsub"
)

// Right is the right of a user to topics.
type Right struct {
	User   string `json:"user"`   // any name of at most 256 bytes
	Topics string `json:"topics"` // a topic, or the beginning of names followed by "*"; at most 257 bytes
}

// Covers reports whether a topic is one of the right.
func (r Right) Covers(topic string) bool {
	if prefix, wild := strings.CutSuffix(r.Topics, "*"); wild {
		return strings.HasPrefix(topic, prefix)
	}
	return topic == r.Topics
}

func (r Right) valid() bool {
	return r.User != "" && len(r.User) <= 256 && r.Topics != "" && len(r.Topics) <= 257
}

// Mark is how many revocations had been carried out, of which log.
type Mark struct{ Epoch, Offset uint64 }

// Config is what Rights need. It does not change after the first call.
type Config struct {
	Log   pubsub.Log    // nil: nothing can be revoked
	Topic string        // of the log
	Keep  time.Duration // for how long a ticket is valid
	// Carry ends the memberships that are covered, and returns what waits until nothing of them is queued any more;
	// nil: nothing is. One goroutine calls it.
	Carry  func(Right) (await func())
	Logger *slog.Logger
}

// Most is how many revocations are kept. Of a longer time than they cover, tickets are refused.
const Most = 10_000

// Rights are the revocations as this process knows them.
type Rights struct {
	Config
	log   logfollow.Follower
	begin sync.Once
	begun atomic.Bool          // log is followed
	done  atomic.Pointer[Mark] // how many have been carried out; nil: none

	mu     sync.RWMutex
	epoch  uint64
	all    []*revocation
	byUser map[string][]*revocation
}

type revocation struct {
	Right
	offset uint64
	sent   chan struct{} // closed when nothing is queued of what was revoked
}

// history keeps revocations for as long as there may be tickets of before.
func (r *Rights) history() pubsub.History {
	return pubsub.History{Messages: Most, Bytes: 16 << 20, Age: 2 * r.Keep}
}

// Await returns when the log has been read once. It is called before the first connection can be a member of anything,
// where others append to the log.
func (r *Rights) Await(ctx context.Context) error {
	if r.Log == nil {
		return nil
	}
	r.begin.Do(func() {
		r.log = logfollow.Follower{
			Log: r.Log, Topic: r.Topic, History: r.history(), Take: r.take,
			Outage: outage.Reporter{
				Component: "rights", Log: r.Logger, Failing: "wskit: the log of revocations cannot be read",
				Working: "wskit: the log of revocations can be read again",
			},
		}
		r.log.Start()
		r.begun.Store(true)
	})
	if !r.begun.Load() {
		return logfollow.ErrEnded
	}
	return r.log.Await(ctx)
}

// Close ends what Await has begun, or will not begin any more.
func (r *Rights) Close() {
	r.begin.Do(func() {})
	if r.begun.Load() {
		r.log.Close()
	}
}

// Revoke appends a revocation, and returns when this process has carried it out: at is for Carried in the others.
func (r *Rights) Revoke(ctx context.Context, right Right) (at pubsub.Position, err error) {
	err = r.Await(ctx)
	if err == nil {
		err = ctx.Err() // it would be chance whether a revocation that is stored now is carried out in time
	}
	if err != nil {
		return at, errors.Unavailable.Wrap(err, "the log of revocations cannot be read; nothing was revoked")
	}
	frame, err := json.Marshal(right)
	if err != nil {
		return at, err
	}
	if at, err = r.Log.Append(ctx, pubsub.Message{Topic: r.Topic, Frame: frame}, r.history(), ""); err != nil {
		return at, errors.Unavailable.Wrap(err, "the revocation may not have been stored; revoke it again")
	}
	return at, r.Carried(ctx, at)
}

// Carried returns when a revocation has been carried out in this process.
func (r *Rights) Carried(ctx context.Context, at pubsub.Position) error {
	err := r.Await(ctx)
	if err == nil {
		err = r.log.Reach(ctx, at)
	}
	if err == nil {
		select {
		case <-r.sent(at):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return errors.Unavailable.Wrap(err, "the revocation is stored, and not carried out yet; revoke it again to know when it is")
	}
	return nil
}

// CatchUp returns when this process has carried out what is in the log now.
func (r *Rights) CatchUp(ctx context.Context) error {
	if err := r.Await(ctx); err != nil || r.Log == nil {
		return err
	}
	heads, err := r.Log.Heads(ctx, []string{r.Topic})
	if err != nil || len(heads) != 1 || heads[0].Offset == 0 {
		return err
	}
	return r.log.Reach(ctx, heads[0])
}

// sent is closed when nothing is queued of what was revoked.
func (r *Rights) sent(at pubsub.Position) <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := len(r.all) - 1; i >= 0 && r.epoch == at.Epoch; i-- {
		if v := r.all[i]; v.offset == at.Offset {
			return v.sent
		}
	}
	return closed
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Mark is how many revocations have been carried out; nil: none. A membership that there is has outlived all of them.
func (r *Rights) Mark() *Mark { return r.done.Load() }

// Any reports whether anything was revoked.
func (r *Rights) Any() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.all) > 0
}

// RevokedSince reports whether a user has lost a topic by a revocation behind a mark, or may have, as it is not known
// any more.
func (r *Rights) RevokedSince(user, topic string, m *Mark) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	known := uint64(0)
	if m != nil && m.Epoch == r.epoch {
		known = m.Offset
	}
	if len(r.all) == Most && r.all[0].offset > known+1 {
		return true
	}
	for _, v := range r.byUser[user] {
		if v.offset > known && v.Covers(topic) {
			return true
		}
	}
	return false
}

// take takes the next message of the log. One that is not understood is never carried out: those that wait for it fail.
func (r *Rights) take(m pubsub.Message) {
	v := &revocation{offset: m.Position.Offset, sent: make(chan struct{})}
	err := json.Unmarshal(m.Frame, &v.Right)
	if err != nil || !v.valid() {
		r.Logger.Error("wskit: a revocation of another process is not understood, and not carried out here", "error", err)
		v.Right = Right{}
	}
	// Those of before the first look are carried out: there were no members.
	due := r.log.Synced()
	if !r.list(v, m.Position.Epoch) {
		return
	}
	switch {
	case v.User == "":
	case due:
		r.carry(v)
	default:
		close(v.sent)
	}
	r.done.Store(&Mark{m.Position.Epoch, m.Position.Offset})
}

// carry carries a revocation out. Since it is listed no membership begins that it covers.
func (r *Rights) carry(v *revocation) {
	await := r.Carry(v.Right)
	if await == nil {
		close(v.sent)
		return
	}
	go func() {
		defer close(v.sent)
		await()
	}()
}

// list adds a revocation, and drops the oldest if there are too many. It reports false for one that is listed already:
// a log of which this process has missed something is read from its beginning again.
func (r *Rights) list(v *revocation, epoch uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.epoch != epoch: // the log before was lost, or has ended
		r.epoch, r.all, r.byUser = epoch, nil, make(map[string][]*revocation)
	case len(r.all) > 0 && v.offset <= r.all[len(r.all)-1].offset:
		return false
	}
	r.all = append(r.all, v)
	r.byUser[v.User] = append(r.byUser[v.User], v)
	if len(r.all) > Most {
		user := r.all[0].User
		r.all = r.all[1:]
		if r.byUser[user] = r.byUser[user][1:]; len(r.byUser[user]) == 0 {
			delete(r.byUser, user)
		}
	}
	return true
}
