package cfdo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/wskit/wskit/internal/leasecheck"
	"github.com/wskit/wskit/limit"
)

// The leases of a key are one row of its object, of IDs by the instants at which they end. Each
// operation is one step of the object, by its clock. Every call that changes a lease writes the row of
// its key, whose size grows with the number of leases. So a key has at most maxLeases.
const (
	maxLeases = 4096 // of a key
	maxID     = 2048 // bytes
	// idsAtOnce is how many IDs share a call at most.
	idsAtOnce = 100
)

// A leaseCall is an operation on the leases of one key, and the answer.
type leaseCall struct {
	key   string
	ids   []string
	most  int64 // the limit of "acquire"; for "held" how many IDs are listed
	lease int64 // the time of the leases, in microseconds

	now, held, first int64
	listed           []string
}

// Acquire implements [limit.LeaseStore].
func (s *store) Acquire(ctx context.Context, lease limit.Lease, most int64, leaseTime time.Duration) (d limit.Decision, err error) {
	if err := leasecheck.Check(most, leaseTime); err != nil {
		return d, err
	}
	h, err := s.callLease(ctx, opAcquire, leaseCall{key: lease.Key, ids: []string{lease.ID}, most: most, lease: leaseMicros(leaseTime)})
	if err != nil {
		return d, err
	}
	d = limit.Decision{Allowed: h.held < most, Limit: most, Remaining: max(0, most-h.held-1), At: h.now}
	if h.first > h.now {
		d.ResetAfter = micros(h.first - h.now)
	}
	return d, nil
}

// Renew implements [limit.LeaseStore].
func (s *store) Renew(ctx context.Context, leases []limit.Lease, leaseTime time.Duration) error {
	if err := leasecheck.Check(1, leaseTime); err != nil {
		return err
	}
	return s.callLeases(ctx, opRenew, leaseMicros(leaseTime), leases)
}

// Release implements [limit.LeaseStore].
func (s *store) Release(ctx context.Context, leases []limit.Lease) error {
	return s.callLeases(ctx, opRelease, 0, leases)
}

// Held implements [limit.LeaseStore].
func (s *store) Held(ctx context.Context, key string, n int) (count int64, ids []string, err error) {
	h, err := s.callLease(ctx, opHeld, leaseCall{key: key, most: min(int64(max(n, 0)), maxLeases)})
	return h.held, h.listed, err
}

// leaseMicros keeps the end of a lease within the range of the Worker.
func leaseMicros(d time.Duration) int64 { return min(d.Microseconds(), maxInstant/4) }

// callLease makes one call.
func (s *store) callLease(ctx context.Context, op operation, h leaseCall) (leaseCall, error) {
	one := []leaseCall{h}
	if err := s.doLeases(ctx, op, one); err != nil {
		return leaseCall{}, err
	}
	return one[0], nil
}

// callLeases makes a call for each key, several in a request. If one fails, the others are made
// nevertheless.
func (s *store) callLeases(ctx context.Context, op operation, lasts int64, leases []limit.Lease) error {
	byKey := make(map[string][]string)
	for _, l := range leases {
		byKey[l.Key] = append(byKey[l.Key], l.ID)
	}
	var failed error
	var calls []leaseCall
	ids := 0
	send := func() {
		if err := s.doLeases(ctx, op, calls); err != nil {
			failed = err
		}
		calls, ids = nil, 0
	}
	for key, all := range byKey {
		for some := range slices.Chunk(all, idsAtOnce) {
			if ids+len(some) > idsAtOnce {
				send()
			}
			calls, ids = append(calls, leaseCall{key: key, ids: some, lease: lasts}), ids+len(some)
		}
	}
	if ids > 0 {
		send()
	}
	return failed
}

func (s *store) doLeases(ctx context.Context, op operation, calls []leaseCall) error {
	for _, h := range calls {
		for _, id := range h.ids {
			if id == "" || len(id) > maxID {
				return fmt.Errorf("cfdo: the ID of a lease has %d bytes; it must have 1 to %d", len(id), maxID)
			}
		}
	}
	it := s.trips.Item()
	it.Value.begin(op)
	it.Value.leases = calls
	for i := range calls {
		it.Value.add(s, calls[i].key, nil, 0) // which says the tenant
	}
	err := s.trips.Do(ctx, it)
	if err == nil {
		s.trips.Free(it)
	}
	return err
}

// lease writes a call.
func (b *body) lease(op operation, a *ask, h *leaseCall) {
	b.begin(op)
	b.asks += max(1, len(h.ids))
	b.subject(a)
	switch op {
	case opAcquire:
		b.field("limit", min(h.most, maxCost))
	case opHeld:
		b.field("most", h.most)
	}
	if op == opAcquire || op == opRenew {
		b.field("lease", h.lease)
	}
	if len(h.ids) > 0 {
		b.buf = append(b.buf, `,"ids":[`...)
		for i, id := range h.ids {
			if i > 0 {
				b.buf = append(b.buf, ',')
			}
			b.buf = appendText(b.buf, id, maxID)
		}
		b.buf = append(b.buf, ']')
	}
	b.buf = append(b.buf, '}')
}

// read fills in an answer: three numbers, and the IDs of "held".
func (h *leaseCall) read(op operation, answer json.RawMessage) error {
	if err := failure(answer); err != nil {
		return err
	}
	var all []json.RawMessage
	if json.Unmarshal(answer, &all) != nil {
		return errAnswer
	}
	if op == opRenew || op == opRelease {
		if len(all) != 0 {
			return errAnswer
		}
		return nil
	}
	if len(all) < 3 || op == opAcquire && len(all) != 3 {
		return errAnswer
	}
	for i, n := range []*int64{&h.now, &h.held, &h.first} {
		if json.Unmarshal(all[i], n) != nil || *n < 0 || *n > maxNumber {
			return errAnswer
		}
	}
	for _, text := range all[3:] {
		var id string
		if json.Unmarshal(text, &id) != nil {
			return errAnswer
		}
		bytes := make([]byte, 0, len(id))
		for _, r := range id { // see appendText
			bytes = append(bytes, byte(r))
		}
		h.listed = append(h.listed, string(bytes))
	}
	return nil
}
