package rules

import (
	"net/netip"
	"slices"

	"github.com/wskit/wskit/ingress"
)

// list is an allow or a deny list.
type list struct {
	names map[user]int // the index in the list; without a name: a whole tenant
	nets  nets[int]
}

func newList(subjects []Subject) list {
	l := list{names: map[user]int{}}
	for i, s := range subjects {
		if s.IP.IsValid() {
			l.nets.add(s.IP, i)
		} else {
			l.names[user{s.Tenant, s.User}] = i
		}
	}
	return l
}

// find returns the index of the entry that applies to the client.
func (l *list) find(c *ingress.Context) (int, bool) {
	if len(l.names) > 0 {
		if i, ok := l.names[user{c.Identity.Tenant, c.Identity.User}]; ok {
			return i, true
		}
		if i, ok := l.names[user{c.Identity.Tenant, ""}]; ok {
			return i, true
		}
	}
	return l.nets.find(c.IP)
}

// nets finds the most specific network of an address, with one lookup for every length of
// prefix that is used, the longest first.
type nets[T any] struct {
	bits [2][]int // of IPv4 and of IPv6, descending
	of   map[netip.Prefix]T
}

func (n *nets[T]) add(p netip.Prefix, v T) {
	if n.of == nil {
		n.of = map[netip.Prefix]T{}
	}
	n.of[p] = v
	bits := &n.bits[family(p.Addr())]
	i, known := slices.BinarySearchFunc(*bits, p.Bits(), func(a, b int) int { return b - a })
	if !known {
		*bits = slices.Insert(*bits, i, p.Bits())
	}
}

func (n *nets[T]) find(ip netip.Addr) (found T, ok bool) {
	if len(n.of) == 0 || !ip.IsValid() {
		return found, false
	}
	ip = ip.Unmap().WithZone("")
	for _, bits := range n.bits[family(ip)] {
		p, err := ip.Prefix(bits)
		if err != nil {
			break
		}
		if found, ok = n.of[p]; ok {
			return found, true
		}
	}
	return found, false
}

func family(ip netip.Addr) int {
	if ip.Is4() {
		return 0
	}
	return 1
}
