package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Visit opens n connections, one after the other. On each it has one request answered, and closes it in good order.
// Under TLS, all but the first resume the session.
func Visit(ctx context.Context, target Target, n int) error {
	addr, err := loopback(target.Addr)
	if err != nil {
		return err
	}
	config := clientConfig.Clone()
	config.ServerName, config.ClientSessionCache = target.Addr, tls.NewLRUClientSessionCache(1)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		resumed, err := visit(addr, target, config)
		if err == nil && target.TLS && i > 0 && !resumed {
			err = errors.New("load: the server does not resume sessions of TLS")
		}
		if err != nil {
			return fmt.Errorf("visit %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

func visit(addr netip.AddrPort, target Target, config *tls.Config) (resumed bool, err error) {
	c, err := dialBlocking(addr, target, config)
	if err != nil {
		return false, err
	}
	defer unix.Close(c.fd)
	if err := c.send(newRequestRing("chat.echo", 1).run(0, 1)); err != nil {
		return false, err
	}
	answer, err := c.await(opText)
	if err != nil {
		return false, err
	}
	if err := checkReply(answer, 0, requestText); err != nil {
		return false, err
	}
	if err := c.send(appendMasked(nil, opClose, []byte{1000 >> 8, 1000 & 0xff})); err != nil {
		return false, err
	}
	if _, err := c.await(opClose); err != nil {
		return false, err
	}
	return c.secure != nil && c.secure.ConnectionState().DidResume, nil
}

// await reads up to a frame, from a blocking socket.
func (c *conn) await(opcode byte) (payload []byte, err error) {
	var buf [4096]byte
	for {
		n, err := c.read(buf[:])
		if n <= 0 {
			if err == nil {
				err = io.EOF
			}
			return nil, fmt.Errorf("load: waiting for an answer: %w", err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			f, more, ok, err := c.scanner.next(rest)
			switch {
			case err != nil:
				return nil, err
			case ok && f.opcode == opcode:
				return append([]byte(nil), f.payload...), nil
			case ok && f.opcode == opClose:
				return nil, fmt.Errorf("%w: %s", errServerClosed, closeReason(f.payload))
			case !ok:
				more = nil
			}
			rest = more
		}
	}
}
