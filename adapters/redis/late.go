package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// A timeout bounds how long Redis takes to answer. In a process that waits for a CPU, the
// timer of the timeout may run before the goroutine that reads an answer which arrived in
// time. So when the deadline of a read has passed, what has arrived is read once more, and
// the read fails only if there is nothing.

// lastLook is how long a read or write may take after its deadline has passed. What has
// arrived is read at once; the time is for the goroutine to get there.
const lastLook = 5 * time.Millisecond

// lateReads is a hook of go-redis that makes the connections of a client do so, and counts
// the reads that found something.
type lateReads struct{ count atomic.Int64 }

func (l *lateReads) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		switch c.(type) {
		case *lateConn, *lateRawConn: // several stores share the client
			return c, nil
		}
		late := lateConn{c, l}
		if of, ok := c.(syscall.Conn); ok { // go-redis checks the health of these
			if raw, err := of.SyscallConn(); err == nil {
				return &lateRawConn{late, raw}, nil
			}
		}
		return &late, nil
	}
}

// ProcessHook and ProcessPipelineHook change nothing.
func (l *lateReads) ProcessHook(goredis.ProcessHook) goredis.ProcessHook { return nil }

func (l *lateReads) ProcessPipelineHook(goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return nil
}

type lateConn struct {
	net.Conn
	late *lateReads
}

type lateRawConn struct {
	lateConn
	raw syscall.RawConn
}

// SyscallConn implements [syscall.Conn]. go-redis calls it before each command.
func (c *lateRawConn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

func (c *lateConn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.SetReadDeadline(time.Now().Add(lastLook)) != nil {
		return n, err
	}
	if n, err = c.Conn.Read(b); err == nil {
		c.late.count.Add(1)
	}
	return n, err
}

func (c *lateConn) Write(b []byte) (n int, err error) {
	n, err = c.Conn.Write(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) || c.SetWriteDeadline(time.Now().Add(lastLook)) != nil {
		return n, err
	}
	more, err := c.Conn.Write(b[n:])
	return n + more, err
}
