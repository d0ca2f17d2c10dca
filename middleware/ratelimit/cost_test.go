package ratelimit_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

func TestBytes(t *testing.T) {
	for _, tc := range []struct{ unit, size, want int }{
		{1, 0, 1}, {1, 1, 1}, {1, 1000, 1000},
		{1024, 0, 1}, {1024, 1, 1}, {1024, 1023, 1}, {1024, 1024, 1}, {1024, 1025, 2}, {1024, 2048, 2}, {1024, 2049, 3},
		{math.MaxInt, math.MaxInt, 1}, {1, math.MaxInt, math.MaxInt}, {2, math.MaxInt, math.MaxInt/2 + 1},
	} {
		c := &ingress.Context{Size: tc.size}
		if got := ratelimit.BytesPer(tc.unit)(c); got != tc.want {
			t.Errorf("%d bytes in units of %d cost %d, want %d", tc.size, tc.unit, got, tc.want)
		}
		if got := ratelimit.Bytes(c); tc.unit == 1 && got != tc.want {
			t.Errorf("%d bytes cost %d, want %d", tc.size, got, tc.want)
		}
	}
}

// What counts are the bytes of the frame as it came, whether or not it
// is well formed or of a known type.
func TestBytesOfFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(memory.NewStore(), hourly(1000), limit.Options{Name: "bytes"})
		r := newRouter(ratelimit.New(l, ratelimit.PerTenant, ratelimit.Options{Cost: ratelimit.Bytes}))
		s := routertest.New(t, r.Router)
		ann, bob := dial(s, "ann"), dial(s, "bob")
		used := int64(0)
		for _, frame := range []string{
			`{"type":"say"}`, `{"type":"say","payload":"äöü€𝄞"}`, `{"type":"made.up"}`, `{"type":`, `[]`, ``,
			`{"type":"say","payload":"` + strings.Repeat("x", 300) + `"}`,
		} {
			ann.SendRaw(frame)
			synctest.Wait()
			used += max(1, int64(len(frame)))
			d, err := l.Peek(t.Context(), ratelimit.PerTenant(l.Key(nil), &ingress.Context{Identity: annID}), 1)
			if err != nil || 1000-d.Remaining != used {
				t.Fatalf("%d bytes are used after %.40s, want %d; %v", 1000-d.Remaining, frame, used, err)
			}
		}
		// The tenant's other users have what is left, to the byte.
		const empty = `{"type":"say","payload":""}`
		fill := func(n int) string {
			return strings.Replace(empty, `""`, `"`+strings.Repeat("x", n-len(empty))+`"`, 1)
		}
		bob.SendRaw(fill(1000 - int(used) + 1))
		bob.ExpectError(errors.ResourceExhausted)
		bob.SendRaw(fill(1000 - int(used)))
		synctest.Wait()
		if f := bob.Frames(); len(f) != 1 || f[0].Type != "ERROR" || !strings.Contains(f[0].String(), "INVALID_ARGUMENT") {
			t.Errorf("what is left does not pass: %v", f) // but a string is no payload of say
		}
	})
}

// A frame that is too large for the router costs one byte more than may be, however
// much of it was read, so that a limit with room for that charges it.
func TestBytesOfAFrameThatIsTooLarge(t *testing.T) {
	l := limit.New(memory.NewStore(), hourly(300), limit.Options{Name: "bytes"})
	r := router.New(router.Options{Limits: router.Limits{MaxPayload: 128}})
	r.Use(ratelimit.New(l, ratelimit.Global, ratelimit.Options{Cost: ratelimit.Bytes}))
	c := routertest.New(t, r).Dial()
	for n, size := range []int{5000, 50000} {
		c.SendRaw(strings.Repeat("x", size))
		c.ExpectError(errors.ResourceExhausted)
		d, err := l.Peek(t.Context(), l.Key(nil), 1)
		if want := 300 - int64(n+1)*129; err != nil || d.Remaining != want {
			t.Errorf("%d bytes are left after a frame of %d, want %d; %v", d.Remaining, size, want, err)
		}
	}
}
