package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"
)

// stampedConn is a connection that knows when the bytes have arrived that it has read: when the kernel had them for
// this socket. This process shares its CPUs with the server, and so may wait for one before it reads. The clients of a
// real server do not.
type stampedConn struct {
	*net.TCPConn
	raw syscall.RawConn

	arrived time.Time // the last bytes of the latest Read
}

// dialOptions make c the connection of a client.
func (c *stampedConn) dialOptions() *websocket.DialOptions {
	return &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DialContext: c.dial}}}
}

func (c *stampedConn) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.TCPConn = nc.(*net.TCPConn)
	if c.raw, err = c.SyscallConn(); err != nil {
		return nil, err
	}
	failed := c.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	return c, errors.Join(failed, err)
}

func (c *stampedConn) Read(b []byte) (n int, err error) {
	var control [128]byte
	var of int
	failed := c.raw.Read(func(fd uintptr) bool {
		n, of, _, _, err = unix.Recvmsg(int(fd), b, control[:], 0)
		return err != unix.EAGAIN
	})
	switch err := errors.Join(failed, err); {
	case err != nil:
		return 0, err
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(control[:of])
	if err != nil {
		return n, err
	}
	for i := range messages {
		if m := &messages[i]; m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS {
			var at unix.Timespec
			if _, err := binary.Decode(m.Data, binary.NativeEndian, &at); err != nil {
				return n, err
			}
			c.arrived = time.Unix(at.Unix())
		}
	}
	return n, nil
}
