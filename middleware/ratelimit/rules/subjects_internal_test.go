package rules

import (
	"net/netip"
	"testing"
)

// Of several networks that have an address, the narrowest counts, in whatever order they are listed.
func TestTheNarrowestNetworkCounts(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{
		{"10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24"},
		{"10.1.1.0/24", "10.1.0.0/16", "10.0.0.0/8"},
		{"10.1.0.0/16", "10.1.1.0/24", "10.0.0.0/8"},
	} {
		var n nets[string]
		for _, p := range order {
			n.add(netip.MustParsePrefix(p), p)
		}
		for ip, want := range map[string]string{
			"10.2.0.1": "10.0.0.0/8", "10.1.2.1": "10.1.0.0/16", "::ffff:10.1.1.1": "10.1.1.0/24", "11.0.0.1": "",
		} {
			if got, ok := n.find(netip.MustParseAddr(ip)); got != want || ok != (want != "") {
				t.Errorf("%q: %s is in %q, want %q", order, ip, got, want)
			}
		}
	}
}
