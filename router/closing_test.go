package router

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/wire"
)

func hangs(*Context, struct{}) error {
	time.Sleep(time.Hour)
	return nil
}

// How long a connection lasts that is closing, and how long its socket, whatever its
// client and its handlers do. The clock looks four times a second.
func TestClosingTakesSeconds(t *testing.T) {
	t.Parallel()
	const s, never = time.Second, time.Duration(-1)
	closes := func(c *Conn) { c.Close(errors.ClosePolicy, "") }
	floods := func(c *Conn) {
		for c.Send("x", make([]byte, 1<<10)) == nil {
		}
	}
	for _, tc := range []struct {
		name         string
		before, last string // frames of the client, before and after the server acts
		act          func(*Conn)
		reads        bool
		ended, gone  time.Duration // OnClose is called, and the socket closed
	}{
		{name: "the client answers", act: closes, last: "close", reads: true},
		{name: "the client is silent", act: closes, reads: true, ended: 5 * s, gone: 5 * s},
		{name: "the client does not read", act: closes, ended: 5 * s, gone: 10 * s},
		{name: "the client is too slow", act: floods, ended: s, gone: s},
		{name: "a handler hangs", before: "hangs", act: closes, reads: true, ended: 5 * s, gone: 5 * s},
		{name: "middleware hangs", before: "held", act: closes, reads: true, ended: 5 * s, gone: 5 * s},
		{name: "a handler hangs, and the reader waits for room", before: "hangs hangs hangs", act: closes, reads: true, ended: 5 * s, gone: 5 * s},
		{name: "the client closes", last: "close", reads: true},
		{name: "the client closes, and does not read", last: "close", gone: 5 * s},
		{name: "the client closes while a handler hangs", before: "hangs", last: "close", reads: true, ended: s},
		{name: "the client closes while a request hangs", before: "asks", last: "close", reads: true},
		{name: "nothing happens", reads: true, ended: never, gone: never},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended, gone atomic.Int64 // after the epoch; 0: not yet
				after := func(at *atomic.Int64, start time.Duration) time.Duration {
					if t := at.Load(); t != 0 {
						return time.Duration(t) - start
					}
					return never
				}
				var r *Router
				r = New(Options{
					Liveness: Liveness{PingInterval: -1, MessageTimeout: -1}, // nothing else is looked after
					Limits:   Limits{MaxQueued: 64 << 10, MaxInFlight: 1},
					OnClose:  func(*Conn, CloseInfo) { ended.Store(int64(r.now())) },
				})
				r.Use(func(next ingress.Handler) ingress.Handler {
					return func(c *ingress.Context) error {
						if c.Type == "held" {
							time.Sleep(time.Hour)
						}
						return next(c)
					}
				})
				On(r, "held", hangs)
				On(r, "hangs", hangs)
				RPC(r, "asks", func(*Context, struct{}) (int, error) { time.Sleep(time.Hour); return 1, nil })
				server, client := net.Pipe()
				socket := closing{server, func() { gone.CompareAndSwap(0, int64(r.now())) }}
				c := r.newConn("test", netip.Addr{}, ingress.Identity{}, wire.NewStream(socket, nil, r.epoch))
				c.stream.Limit(r.opts.Limits.MaxPayload, false)
				r.open(c)
				write := func(frames string) {
					for _, b := range clientFrames(frames) {
						_, _ = client.Write(b)
						synctest.Wait()
					}
				}
				go write(tc.before)
				time.Sleep(s)
				start := r.now()
				if tc.reads {
					go func() { _, _ = io.Copy(io.Discard, client) }()
				}
				if tc.act != nil {
					tc.act(c)
				}
				go write(tc.last)
				time.Sleep(time.Minute)
				for _, m := range []struct {
					what      string
					got, want time.Duration
				}{{"OnClose is called", after(&ended, start), tc.ended}, {"the socket is closed", after(&gone, start), tc.gone}} {
					if m.got < m.want || m.got > m.want+2*maxTick {
						t.Errorf("%s after %v, want %v", m.what, m.got, m.want)
					}
				}
				c.stream.Abort()
				c.end(nil)
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// closing is a socket that reports when it is closed.
type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error { c.closed(); return c.Conn.Close() }

// clientFrames are the frames of a client: messages without a payload, named by their type,
// or a close frame.
func clientFrames(names string) (all [][]byte) {
	for _, name := range strings.Fields(names) {
		switch name {
		case "close":
			all = append(all, []byte{0x88, 0x82, 0, 0, 0, 0, 1000 >> 8, 1000 & 0xFF})
		default:
			all = append(all, maskedFrame(`{"type":"`+name+`","meta":{"correlationId":"1"}}`))
		}
	}
	return all
}
