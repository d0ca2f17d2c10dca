package load

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// loopback parses "host:port" and refuses every address outside loopback. It asks no
// resolver: a name other than localhost is refused as well, because what it resolves
// to is not ours to know.
func loopback(addr string) (netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("load: address %q: %w", addr, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return netip.AddrPort{}, fmt.Errorf("load: address %q has no usable port", addr)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("load: %q is neither a loopback IP nor localhost; load is sent to this machine only", host)
	}
	if ip = ip.Unmap(); !ip.IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf("load: %s is not a loopback address; load is sent to this machine only", ip)
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}
