package limitfeed

import (
	"bytes"
	"strconv"
	"time"

	"github.com/wskit/wskit/internal/ceil"
	"github.com/wskit/wskit/internal/inbound"
	"github.com/wskit/wskit/router/internal/frame"
)

// state is the state of a limit at an instant.
type state struct {
	inbound.Limit
	at time.Time
}

// encode appends the payload of $ws:limits and the end of the frame. f.mu is held.
func (f *Feed) encode(b *frame.Buffer, now time.Time) {
	b.WriteString(`{"limits":[`)
	for i := range f.limits {
		k := &f.limits[i]
		if f.firstOf(k) < i {
			continue // written with the first one of this state
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"name":`)
		b.Text(k.Name)
		b.WriteString(`,"types":{`)
		for j := range f.limits[i:] {
			if of := &f.limits[i+j]; k.same(of) {
				if j > 0 {
					b.WriteByte(',')
				}
				b.Text(of.Type)
				b.WriteByte(':')
				if of.Cost > 0 {
					b.Int(of.Cost)
				} else {
					b.WriteString("null")
				}
			}
		}
		k.encode(b, now)
	}
	b.WriteString(`],"seen":{`)
	for i, typ := range f.types {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Text(typ)
		b.WriteByte(':')
		b.Int(f.seen[i])
	}
	b.WriteString("}}}")
}

// firstOf returns the index of the first limit of a state. f.mu is held.
func (f *Feed) firstOf(of *state) int {
	for i := range f.limits {
		if f.limits[i].same(of) {
			return i
		}
	}
	return len(f.limits)
}

// same reports whether two limits are one state.
func (k *state) same(other *state) bool {
	return k.Source == other.Source && bytes.Equal(k.Key, other.Key)
}

// encode appends what is left of a limit now. Amounts are rounded down, times up.
func (k *state) encode(b *frame.Buffer, now time.Time) {
	elapsed := now.Sub(k.at)
	full := max(0, k.FullAfter-elapsed)
	left := k.Remaining
	if k.Refill > 0 {
		left += float64(elapsed) * float64(k.Refill) / float64(k.Per)
	}
	if full == 0 {
		left = float64(k.Ceiling)
	}
	left = float64(int64(min(left, float64(k.Ceiling))*1e6)) / 1e6
	b.WriteString(`},"limit":`)
	b.Int(k.Ceiling)
	b.WriteString(`,"remaining":`)
	b.Write(strconv.AppendFloat(b.AvailableBuffer(), left, 'f', -1, 64))
	b.WriteString(`,"fullInMs":`)
	b.Int(ceil.Div(full, time.Millisecond))
	if k.Refill > 0 {
		b.WriteString(`,"refill":`)
		b.Int(k.Refill)
		b.WriteString(`,"perMs":`)
		b.Write(strconv.AppendFloat(b.AvailableBuffer(), float64(k.Per)/float64(time.Millisecond), 'f', -1, 64))
	}
	b.WriteByte('}')
}
