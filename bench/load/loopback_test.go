package load

import (
	"context"
	"strings"
	"testing"
)

func TestOnlyLoopbackIsLoaded(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:80", "127.8.9.10:80", "[::1]:80", "localhost:80", "[::ffff:127.0.0.1]:80"} {
		if _, err := loopback(addr); err != nil {
			t.Errorf("loopback(%q) = %v, want it accepted", addr, err)
		}
	}
	for _, addr := range []string{
		"10.0.0.1:80", "192.168.1.1:80", "8.8.8.8:80", "0.0.0.0:80", "[::]:80", "[2001:db8::1]:80",
		"[::ffff:8.8.8.8]:80", "example.com:80", "localhost.example.com:80", ":80", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:http",
	} {
		if got, err := loopback(addr); err == nil {
			t.Errorf("loopback(%q) = %v, want it refused", addr, got)
		}
	}
}

func TestOpenRefusesBeforeConnecting(t *testing.T) {
	_, err := Open(context.Background(), Target{Addr: "192.0.2.1:80", Path: "/ws"}, 1)
	if err == nil || !strings.Contains(err.Error(), "this machine only") {
		t.Fatalf("Open = %v, want a refusal of the address", err)
	}
}
