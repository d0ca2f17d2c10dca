package load

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

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
	sentAt   int64           // when the only request in flight left; latency runs only
	due      []time.Duration // when the requests in flight were to leave; paced runs only
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
	fd, err := connect(addr, target.From, 0)
	if err != nil {
		return nil, err
	}
	c := &conn{fd: fd}
	c.scanner.deflate = target.Deflate
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

// connect opens a connection. With SOCK_NONBLOCK among the flags it does not wait until it is open.
func connect(addr netip.AddrPort, from string, flags int) (fd int, err error) {
	family, target := socketAddress(addr)
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	if err != nil {
		return 0, fmt.Errorf("load: socket: %w", err)
	}
	timeout := unix.NsecToTimeval(int64(stallAfter)) // a server may be busy with thousands of other connections
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	// Closing resets the connection: tens of thousands of them in TIME_WAIT would
	// otherwise use up the ports for the next server in the comparison.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	if err := bind(fd, from); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("load: connections from %q: %w", from, err)
	}
	if err := retry(func() error { return unix.Connect(fd, target) }); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(fd)
		return 0, fmt.Errorf("load: connect to %s: %w", addr, err)
	}
	return fd, nil
}

// bind makes a socket connect from a loopback address; an empty one does nothing. The kernel chooses the port with the
// connection, so that connections to different servers may have the same.
func bind(fd int, from string) error {
	if from == "" {
		return nil
	}
	ip, err := netip.ParseAddr(from)
	switch {
	case err != nil:
		return err
	case !ip.IsLoopback():
		return errors.New("not a loopback address")
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	_, source := socketAddress(netip.AddrPortFrom(ip, 0))
	return unix.Bind(fd, source)
}

func socketAddress(addr netip.AddrPort) (family int, target unix.Sockaddr) {
	if ip := addr.Addr(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
}

func upgradeRequest(addr netip.AddrPort, target Target) []byte {
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n", target.Path, addr, handshakeNonce)
	if target.Token != "" {
		request = fmt.Appendf(request, "Authorization: Bearer %s\r\n", target.Token)
	}
	if target.Deflate {
		request = append(request, offer...)
	}
	return append(request, "\r\n"...)
}

func (c *conn) upgrade(addr netip.AddrPort, target Target) error {
	if err := c.send(upgradeRequest(addr, target)); err != nil {
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
		if !whole {
			continue
		}
		if err := c.checkUpgrade(head); err != nil {
			return err
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

// checkUpgrade says what is wrong with the header of the answer to a handshake.
func (c *conn) checkUpgrade(head []byte) error {
	switch {
	case !bytes.HasPrefix(head, []byte("HTTP/1.1 101")):
		status, _, _ := bytes.Cut(head, []byte("\r\n"))
		return fmt.Errorf("refused with %q", status)
	case !bytes.Contains(head, []byte(handshakeAccept)):
		return errors.New("wrong Sec-WebSocket-Accept")
	case c.scanner.deflate && !bytes.Contains(head, []byte("permessage-deflate")):
		return errors.New("the server does not compress")
	}
	return nil
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
