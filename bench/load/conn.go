package load

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"golang.org/x/sys/unix"
)

// conn is one client connection: a non-blocking socket and what is known of it.
type conn struct {
	fd      int
	secure  *tls.Conn // over the socket; nil: none
	socket  socket    // under secure
	scanner frameScanner
	unsent  []byte // the tail of a write the socket did not take

	sent     int // requests written so far; names the next slot of the ring
	inFlight int
	sentAt   int64 // when the only request in flight left; latency runs only
}

// The nonce and the answer to it are RFC 6455's own example, section 1.3.
const (
	handshakeNonce  = "dGhlIHNhbXBsZSBub25jZQ=="
	handshakeAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// dial connects and upgrades with a blocking socket, then makes it non-blocking.
func dial(addr netip.AddrPort, target Target) (*conn, error) {
	c, err := dialBlocking(addr, target, clientConfig)
	if err != nil {
		return nil, err
	}
	c.socket.nonblocking = true
	return c, unix.SetNonblock(c.fd, true)
}

func dialBlocking(addr netip.AddrPort, target Target, config *tls.Config) (*conn, error) {
	fd, err := connect(addr)
	if err != nil {
		return nil, err
	}
	c := &conn{fd: fd}
	if target.TLS {
		if err := c.encrypt(config); err != nil {
			unix.Close(fd)
			return nil, err
		}
	}
	if err := c.upgrade(addr, target); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return c, nil
}

func connect(addr netip.AddrPort) (fd int, err error) {
	family, target := socketAddress(addr)
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("load: socket: %w", err)
	}
	const timeout = 10 // seconds; a server may be busy with thousands of other connections
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: timeout})
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	// Closing resets the connection: tens of thousands of them in TIME_WAIT would
	// otherwise use up the ports for the next server in the comparison.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})

	if err := retry(func() error { return unix.Connect(fd, target) }); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("load: connect to %s: %w", addr, err)
	}
	return fd, nil
}

func socketAddress(addr netip.AddrPort) (family int, target unix.Sockaddr) {
	if ip := addr.Addr(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
}

func (c *conn) upgrade(addr netip.AddrPort, target Target) error {
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n", target.Path, addr, handshakeNonce)
	if target.Token != "" {
		request = fmt.Appendf(request, "Authorization: Bearer %s\r\n", target.Token)
	}
	request = append(request, "\r\n"...)
	if err := c.send(request); err != nil {
		return fmt.Errorf("load: upgrade: %w", err)
	}
	if err := c.readUpgradeAnswer(); err != nil {
		return fmt.Errorf("load: upgrade at %s: %w", target.Path, err)
	}
	return nil
}

func (c *conn) readUpgradeAnswer() error {
	var buf [4096]byte
	for have := 0; have < len(buf); {
		n, err := c.read(buf[have:])
		if err == io.EOF || n == 0 && err == nil {
			return errors.New("the server closed the connection")
		}
		if err != nil {
			return err
		}
		have += n
		head, rest, whole := bytes.Cut(buf[:have], []byte("\r\n\r\n"))
		switch {
		case !whole:
			continue
		case !bytes.HasPrefix(head, []byte("HTTP/1.1 101")):
			status, _, _ := bytes.Cut(head, []byte("\r\n"))
			return fmt.Errorf("refused with %q", status)
		case !bytes.Contains(head, []byte(handshakeAccept)):
			return errors.New("wrong Sec-WebSocket-Accept")
		}
		for len(rest) > 0 { // what a server sends by itself is not counted
			if _, rest, _, err = c.scanner.next(rest); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("the answer's header is too long")
}

// read is for a blocking socket.
func (c *conn) read(buf []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Read(buf)
	}
	return readRetrying(c.fd, buf)
}

// send writes frames, keeping what the socket does not take for flush.
func (c *conn) send(frames []byte) error {
	if c.secure != nil {
		_, err := c.secure.Write(frames)
		return err
	}
	return c.write(frames)
}

// write sends bytes. What is sent while a tail is waiting is appended behind it.
func (c *conn) write(b []byte) error {
	if len(c.unsent) > 0 {
		// Copied, because the tail is a slice of the shared ring.
		c.unsent = append(append([]byte(nil), c.unsent...), b...)
		return nil
	}
	c.unsent = b
	return c.flush()
}

// flush continues a write once the socket takes more.
func (c *conn) flush() error {
	for len(c.unsent) > 0 {
		n, err := unix.Write(c.fd, c.unsent)
		switch {
		case err == nil:
			c.unsent = c.unsent[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return nil
		default:
			return fmt.Errorf("load: write: %w", err)
		}
	}
	c.unsent = nil
	return nil
}

func readRetrying(fd int, buf []byte) (n int, err error) {
	err = retry(func() error { n, err = unix.Read(fd, buf); return err })
	return n, err
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
