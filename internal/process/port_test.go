package process_test

import (
	"net"
	"testing"

	"github.com/wskit/wskit/internal/process"
)

// A port is reserved once, also while nothing listens on it, and can be listened on.
func TestPortsAreReservedOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		port := process.FreePort(t)
		if seen[port] {
			t.Fatalf("port %s is reserved twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}
