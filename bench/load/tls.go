package load

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// clientConfig trusts any certificate: the server is on this machine, and made its own.
var clientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}

// encrypt puts TLS over a socket that still blocks.
func (c *conn) encrypt(config *tls.Config) error {
	c.socket.conn = c
	c.secure = tls.Client(&c.socket, config)
	if err := c.secure.Handshake(); err != nil {
		return fmt.Errorf("load: TLS: %w", err)
	}
	return nil
}

// decrypt passes what was read from the socket through TLS, and calls each with the
// parts of it. buf is where they lie.
func (c *conn) decrypt(in, buf []byte, each func([]byte) error) error {
	c.socket.in = in
	for {
		n, err := c.secure.Read(buf)
		if n > 0 {
			if err := each(buf[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case errNothing:
			return nil
		case io.EOF:
			return errServerClosed
		default:
			return fmt.Errorf("load: TLS: %w", err)
		}
	}
}

// socket is what TLS reads from and writes to: the socket itself while it blocks, and
// then what decrypt was given.
type socket struct {
	conn        *conn
	nonblocking bool
	in          []byte
}

// errNothing says that more has to be read from the socket. TLS takes an error that is
// a timeout for temporary.
var errNothing net.Error = nothing{}

type nothing struct{}

func (nothing) Error() string   { return "load: nothing to read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }

func (s *socket) Read(p []byte) (int, error) {
	if !s.nonblocking {
		n, err := readRetrying(s.conn.fd, p)
		if n == 0 && err == nil {
			err = io.EOF
		}
		return max(n, 0), err
	}
	if len(s.in) == 0 {
		return 0, errNothing
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}

// Write never fails for a socket that is full, which TLS would not survive.
func (s *socket) Write(p []byte) (int, error) {
	if err := s.conn.write(p); err != nil {
		return 0, err
	}
	s.conn.unsent = bytes.Clone(s.conn.unsent) // TLS uses p again
	return len(p), nil
}

func (s *socket) Close() error                     { return nil }
func (s *socket) LocalAddr() net.Addr              { return nil }
func (s *socket) RemoteAddr() net.Addr             { return nil }
func (s *socket) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (s *socket) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (s *socket) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
