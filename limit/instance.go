package limit

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
	"github.com/wskit/wskit/internal/engine"
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
	store       LeaseStore
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
func newInstance(store Store, o ConcurrencyOptions) *instance {
	if _, local := store.(engine.LocalStore); o.Instance == "" || local {
		return nil
	}
	// If a note cannot be written, the lease is acquired, and the next renewal writes the note.
	o.Limiter.OnFailure = FailOpen
	if o.Limiter.Logger == nil {
		o.Limiter.Logger = slog.Default()
	}
	unlimited := func(suffix string, leaseTime time.Duration) *leaseRenewer {
		limiter := o.Limiter
		limiter.Name += suffix
		return newLeaseRenewer(store, ConcurrencyOptions{Max: math.MaxInt32, LeaseTime: leaseTime, Limiter: limiter})
	}
	o.LeaseTime = leaseTime(store, o)
	i := &instance{
		name: o.Instance, epoch: rand.Text(), store: store.(LeaseStore), log: o.Limiter.Logger,
		notes: unlimited("/notes", o.LeaseTime), alive: unlimited("/alive", min(aliveLease, o.LeaseTime)),
	}
	go i.reclaim()
	return i
}

// epochs is the lease of this epoch: among those with notes, or those of running processes.
func (i *instance) epochs(r *leaseRenewer) Lease {
	return Lease{Key: r.limiter.Key(nil).Part(i.name).String(), ID: i.epoch}
}

// notesOf is the key of an epoch's notes.
func (i *instance) notesOf(epoch string) string {
	return i.notes.limiter.Key(nil).Part(i.name).Part(epoch).String()
}

// noteOf is the note of a lease of this process.
func (i *instance) noteOf(lease Lease) Lease {
	return Lease{Key: i.notesOf(i.epoch), ID: encodeLease(lease)}
}

// note starts to note a lease. The function that it returns waits until that is done.
func (i *instance) note(ctx context.Context, lease Lease) (wait func()) {
	if i == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if i.alive.count() == 0 { // before there are notes: an epoch with notes must be running
			i.acquire(ctx, i.alive, i.epochs(i.alive))
			i.acquire(ctx, i.notes, i.epochs(i.notes))
		}
		i.acquire(ctx, i.notes, i.noteOf(lease))
	}()
	return func() { <-done }
}

func (i *instance) acquire(ctx context.Context, r *leaseRenewer, lease Lease) {
	if _, err := r.acquire(ctx, lease, math.MaxInt32); err != nil { // the caller has given up
		r.wakeFor(nil)
		return
	}
	r.start()
}

// forget returns a function that removes the note of a lease without waiting, to be called
// when the lease is released; nil if there is none.
func (i *instance) forget(lease Lease) func() {
	if i == nil {
		return nil
	}
	return func() { i.notes.release(i.noteOf(lease), nil) }
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
	i.notes.release(i.epochs(i.notes), nil)
	i.alive.release(i.epochs(i.alive), nil)
	return errors.Join(i.notes.flushed(ctx), i.alive.flushed(ctx))
}

// reclaim releases the leases of dead processes of this name. It repeats this until a process
// that died just before this one started counts as dead, and for at most the time of a lease,
// because then all leases have expired.
func (i *instance) reclaim() {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), i.notes.leaseTime)
	defer cancel()
	released := 0
	for {
		looked := time.Now()
		n, err := i.releaseDead(ctx)
		released += n
		switch {
		case err == nil && looked.Sub(began) > aliveLease+aliveLease/2:
			if released > 0 {
				i.log.Info("limit: released the leases of a former process of this instance", "instance", i.name, "leases", released)
			}
			return
		case ctx.Err() != nil:
			i.log.Warn("limit: the leases of a former process of this instance were not released before they expired", "instance", i.name, "error", err)
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
	_, known, err := i.store.Held(ctx, i.epochs(i.notes).Key, listAtOnce)
	if err != nil || len(known) == 0 {
		return 0, err
	}
	_, living, err := i.store.Held(ctx, i.epochs(i.alive).Key, listAtOnce)
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
	key := i.notesOf(epoch)
	for {
		_, ids, err := i.store.Held(ctx, key, listAtOnce)
		if err != nil {
			return released, err
		}
		if len(ids) == 0 {
			return released, i.store.Release(ctx, []Lease{{Key: i.epochs(i.notes).Key, ID: epoch}})
		}
		var leases, notes []Lease
		for _, id := range ids {
			notes = append(notes, Lease{Key: key, ID: id})
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
func encodeLease(lease Lease) string {
	return fmt.Sprintf("%d:%s%s", len(lease.ID), lease.ID, lease.Key)
}

func decodeLease(note string) (lease Lease, ok bool) {
	length, rest, ok := strings.Cut(note, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return lease, false
	}
	return Lease{ID: rest[:n], Key: rest[n:]}, true
}
