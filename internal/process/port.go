package process

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort reserves a port until the test has ended, see [ReservePort].
func FreePort(t testing.TB) (port string) {
	t.Helper()
	port, release, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// FreeAddr is FreePort with the host before the port.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", FreePort(t))
}

// ReservePort returns a port of 127.0.0.1 on which nothing listens, below those that the system uses for outgoing
// connections. Otherwise such a connection could take the port before the server listens, or while it is down; a client
// that reconnects could even connect to itself. Until release, the port is returned to no other caller, of this process
// or of another.
func ReservePort() (port string, release func(), err error) {
	for range 1000 {
		port = strconv.Itoa(10_000 + rand.IntN(20_000))
		addr := net.JoinHostPort("127.0.0.1", port)
		// The ports of UDP are others than those of TCP: one that is taken marks that of TCP as reserved.
		mark, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = mark.Close()
			continue
		}
		_ = l.Close()
		return port, func() { _ = mark.Close() }, nil
	}
	return "", nil, errors.New("process: no port of 127.0.0.1 from 10000 to 29999 is free")
}
