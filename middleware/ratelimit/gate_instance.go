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

// instance writes down in the store which places this process holds, so that the next
// process of the same name can release them when this one is killed.
//
// A process has an epoch, an ID that no other has. Under the name the store keeps two
// sets of epochs: those that have notes, for a lease like any place, and those that
// live, for aliveLease. Under name and epoch it keeps the notes. What belongs to an
// epoch that has notes and does not live is released. So processes that live never
// release each other's places, whatever their names are.
//
// All of it is slots without a limit, which lease renewers renew. A nil instance notes nothing.
type instance struct {
	name, epoch string
	store       limit.LeaseStore
	notes       *leaseRenewer
	alive       *leaseRenewer
	log         *slog.Logger
}

const (
	// aliveLease is the time after which a process that was killed counts as dead for
	// the next one of its name.
	aliveLease = 2 * time.Second
	// listAtOnce bounds how many notes are read at a time.
	listAtOnce = 1000
)

// newInstance returns nil where there is nothing to note. It begins to release what
// former processes held.
func newInstance(store limit.Store, o GateOptions) *instance {
	holder, ok := store.(limit.LeaseStore)
	if _, local := store.(limit.LocalStore); o.Instance == "" || local || !ok {
		return nil
	}
	// A note that cannot be written refuses no connection, and is written by the next
	// renewal.
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

func (i *instance) epochs(k *leaseRenewer) limit.Key { return k.holds.Key(nil).Part(i.name) }
func (i *instance) notesOf(epoch string) limit.Key {
	return i.notes.holds.Key(nil).Part(i.name).Part(epoch)
}

// note begins to note a place. The function that it returns waits until that is done,
// and returns one that forgets the note without waiting, to be called when the place is
// free.
func (i *instance) note(ctx context.Context, place limit.Lease) func() (forget func()) {
	if i == nil {
		return func() func() { return nil }
	}
	done := make(chan limit.Lease, 1)
	go func() {
		if i.alive.mine() == 0 { // before there are notes: they are those of a living process
			i.hold(ctx, i.alive, i.epochs(i.alive), i.epoch)
			i.hold(ctx, i.notes, i.epochs(i.notes), i.epoch)
		}
		done <- i.hold(ctx, i.notes, i.notesOf(i.epoch), encodeSlot(place))
	}()
	return func() func() {
		slot := <-done
		return func() { i.notes.release(slot, nil) }
	}
}

func (i *instance) hold(ctx context.Context, k *leaseRenewer, key limit.Key, id string) limit.Lease {
	slot, _, err := k.holds.Acquire(ctx, key, id)
	if err != nil { // the handshake was given up
		k.flush(nil)
		return slot
	}
	k.keep()
	return slot
}

// flush waits until the notes of released places are gone. When there are no others,
// the process needs not count as alive any more.
func (i *instance) flush(ctx context.Context) error {
	if i == nil {
		return nil
	}
	if err := i.notes.flushed(ctx); err != nil {
		return err
	}
	if i.notes.mine() > 1 {
		return nil
	}
	i.notes.release(limit.Lease{Key: i.epochs(i.notes).String(), ID: i.epoch}, nil)
	i.alive.release(limit.Lease{Key: i.epochs(i.alive).String(), ID: i.epoch}, nil)
	return errors.Join(i.notes.flushed(ctx), i.alive.flushed(ctx))
}

// reclaim releases what processes of this name held that have died. It looks until one
// that died just before this one began counts as dead; and no longer than a lease,
// because then nothing is held any more.
func (i *instance) reclaim() {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), i.notes.holds.LeaseTime())
	defer cancel()
	released := 0
	for {
		looked := time.Now()
		n, err := i.releaseDead(ctx)
		released += n
		switch {
		case err == nil && looked.Sub(began) > aliveLease+aliveLease/2:
			if released > 0 {
				i.log.Info("ratelimit: released what a former process of this instance held", "instance", i.name, "places", released)
			}
			return
		case ctx.Err() != nil:
			i.log.Warn("ratelimit: what a former process of this instance held was not released before the end of its lease", "instance", i.name, "error", err)
			return
		}
		select {
		case <-time.After(aliveLease / 4):
		case <-ctx.Done():
		}
	}
}

// releaseDead releases what belongs to epochs that do not live, and counts the places.
func (i *instance) releaseDead(ctx context.Context) (released int, err error) {
	// In this order: an epoch is alive before it has notes.
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
		var places, notes []limit.Lease
		for _, id := range ids {
			notes = append(notes, limit.Lease{Key: key, ID: id})
			if place, ok := decodeSlot(id); ok {
				places = append(places, place)
			}
		}
		if err := i.store.Release(ctx, places); err != nil {
			return released, err
		}
		released += len(places)
		if err := i.store.Release(ctx, notes); err != nil {
			return released, err
		}
	}
}

// encodeSlot writes a place as the ID of its note.
func encodeSlot(s limit.Lease) string { return fmt.Sprintf("%d:%s%s", len(s.ID), s.ID, s.Key) }

func decodeSlot(note string) (s limit.Lease, ok bool) {
	length, rest, ok := strings.Cut(note, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return s, false
	}
	return limit.Lease{ID: rest[:n], Key: rest[n:]}, true
}
