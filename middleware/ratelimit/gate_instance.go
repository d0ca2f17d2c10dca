package ratelimit

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// instance notes in the store which leases this process has, so that the next process of the
// same name can release them if this one is killed.
//
// A process has an epoch, which is a unique ID. Under the name, the store has two sets of
// epochs: those with notes, for the time of a lease, and those of running processes, for
// aliveLease. Under name and epoch it has the notes. The leases of an epoch that has notes and
// is not running are released. So running processes never release leases of each other,
// whatever their names are.
//
// All of these are leases without a limit, which lease renewers renew. A nil instance notes
// nothing.
type instance struct {
	name, epoch string
	store       limit.LeaseStore
	notes       *leaseRenewer
	alive       *leaseRenewer
	log         *slog.Logger
}

const (
	// aliveLease is the time after which a killed process no longer counts as running.
	aliveLease = 2 * time.Second
	// listAtOnce bounds how many notes are read at a time.
	listAtOnce = 1000
)

// newInstance returns nil if no notes are needed. It starts to release the leases of former
// processes.
func newInstance(store limit.Store, o GateOptions) *instance {
	holder, ok := store.(limit.LeaseStore)
	if _, local := store.(limit.LocalStore); o.Instance == "" || local || !ok {
		return nil
	}
	// If a note cannot be written, the connection is admitted, and the next renewal writes
	// the note.
	options := o.Limiter
	options.OnFailure = limit.FailOpen
	i := &instance{
		name: o.Instance, epoch: rand.Text(), store: holder, log: o.Limiter.Logger,
		notes: newLeaseRenewer(store, "", math.MaxInt32, o.Lease, named(options, "/notes")),
		alive: newLeaseRenewer(store, "", math.MaxInt32, min(aliveLease, o.Lease), named(options, "/alive")),
	}
	go i.reclaim()
	return i
}

func (i *instance) epochs(r *leaseRenewer) limit.Key { return r.limit.Key(nil).Part(i.name) }
func (i *instance) notesOf(epoch string) limit.Key {
	return i.notes.limit.Key(nil).Part(i.name).Part(epoch)
}

// note starts to note a lease. The function that it returns waits until that is done. It returns
// a function that removes the note without waiting, to be called when the lease is released.
func (i *instance) note(ctx context.Context, lease limit.Lease) func() (forget func()) {
	if i == nil {
		return func() func() { return nil }
	}
	done := make(chan limit.Lease, 1)
	go func() {
		if i.alive.count() == 0 { // before there are notes: an epoch with notes must be running
			i.acquire(ctx, i.alive, i.epochs(i.alive), i.epoch)
			i.acquire(ctx, i.notes, i.epochs(i.notes), i.epoch)
		}
		done <- i.acquire(ctx, i.notes, i.notesOf(i.epoch), encodeLease(lease))
	}()
	return func() func() {
		lease := <-done
		return func() { i.notes.release(lease, nil) }
	}
}

func (i *instance) acquire(ctx context.Context, r *leaseRenewer, key limit.Key, id string) limit.Lease {
	lease, _, err := r.limit.Acquire(ctx, key, id)
	if err != nil { // the handshake was cancelled
		r.flush(nil)
		return lease
	}
	r.start()
	return lease
}

// flush waits until the notes of released leases are removed. If there are no others, the epoch
// is removed, too.
func (i *instance) flush(ctx context.Context) error {
	if i == nil {
		return nil
	}
	if err := i.notes.flushed(ctx); err != nil {
		return err
	}
	if i.notes.count() > 1 {
		return nil
	}
	i.notes.release(limit.Lease{Key: i.epochs(i.notes).String(), ID: i.epoch}, nil)
	i.alive.release(limit.Lease{Key: i.epochs(i.alive).String(), ID: i.epoch}, nil)
	return errors.Join(i.notes.flushed(ctx), i.alive.flushed(ctx))
}

// reclaim releases the leases of dead processes of this name. It repeats this until a process
// that died just before this one started counts as dead, and for at most the time of a lease,
// because then all leases have expired.
func (i *instance) reclaim() {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), i.notes.limit.LeaseTime())
	defer cancel()
	released := 0
	for {
		looked := time.Now()
		n, err := i.releaseDead(ctx)
		released += n
		switch {
		case err == nil && looked.Sub(began) > aliveLease+aliveLease/2:
			if released > 0 {
				i.log.Info("ratelimit: released the leases of a former process of this instance", "instance", i.name, "leases", released)
			}
			return
		case ctx.Err() != nil:
			i.log.Warn("ratelimit: the leases of a former process of this instance were not released before they expired", "instance", i.name, "error", err)
			return
		}
		select {
		case <-time.After(aliveLease / 4):
		case <-ctx.Done():
		}
	}
}

// releaseDead releases the leases of epochs that are not running, and counts them.
func (i *instance) releaseDead(ctx context.Context) (released int, err error) {
	// In this order: an epoch is running before it has notes.
	known, err := i.store.HeldIDs(ctx, i.epochs(i.notes).String(), listAtOnce)
	if err != nil || len(known) == 0 {
		return 0, err
	}
	living, err := i.store.HeldIDs(ctx, i.epochs(i.alive).String(), listAtOnce)
	if err != nil {
		return 0, err
	}
	dead := make(map[string]bool)
	for _, epoch := range known {
		dead[epoch] = epoch != i.epoch
	}
	for _, epoch := range living {
		dead[epoch] = false
	}
	for epoch, is := range dead {
		if !is {
			continue
		}
		n, err := i.releaseEpoch(ctx, epoch)
		if released += n; err != nil {
			return released, err
		}
	}
	return released, nil
}

func (i *instance) releaseEpoch(ctx context.Context, epoch string) (released int, err error) {
	key := i.notesOf(epoch).String()
	for {
		ids, err := i.store.HeldIDs(ctx, key, listAtOnce)
		if err != nil {
			return released, err
		}
		if len(ids) == 0 {
			return released, i.store.Release(ctx, []limit.Lease{{Key: i.epochs(i.notes).String(), ID: epoch}})
		}
		var leases, notes []limit.Lease
		for _, id := range ids {
			notes = append(notes, limit.Lease{Key: key, ID: id})
			if lease, ok := decodeLease(id); ok {
				leases = append(leases, lease)
			}
		}
		if err := i.store.Release(ctx, leases); err != nil {
			return released, err
		}
		released += len(leases)
		if err := i.store.Release(ctx, notes); err != nil {
			return released, err
		}
	}
}

// encodeLease writes a lease as the ID of its note.
func encodeLease(lease limit.Lease) string {
	return fmt.Sprintf("%d:%s%s", len(lease.ID), lease.ID, lease.Key)
}

func decodeLease(note string) (lease limit.Lease, ok bool) {
	length, rest, ok := strings.Cut(note, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return lease, false
	}
	return limit.Lease{ID: rest[:n], Key: rest[n:]}, true
}
