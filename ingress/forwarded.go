package ingress

import (
	"iter"
	"net/http"
	"net/netip"
	"strings"
)

// hops yields the addresses of the list from its end, all lines of the field
// joined; the zero Addr stands for an element that is no address.
//
// It is read backwards because proxies write at the end. The part from the client must not
// change where an element begins, for instance by an unclosed quotation mark.
func (t Trust) hops(r *http.Request) iter.Seq[netip.Addr] {
	parse := forwardedFor
	if t.Header == forwarded {
		parse = forwardedElement
	}
	return func(yield func(netip.Addr) bool) {
		lines := r.Header[t.Header]
		for i := len(lines) - 1; i >= 0; i-- {
			for rest, more := lines[i], true; more; {
				var element string
				rest, element, more = cutLast(rest, ',', t.Header == forwarded)
				ip, _ := parse(element)
				if !yield(ip) {
					return
				}
			}
		}
	}
}

// cutLast splits s around its last separator, outside of quoted strings if the
// field has any.
func cutLast(s string, sep byte, quoted bool) (before, after string, found bool) {
	in := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case quoted && s[i] == '"' && !escaped(s, i):
			in = !in
		case s[i] == sep && !in:
			return s[:i], s[i+1:], true
		}
	}
	return "", s, false
}

// escaped reports whether the byte at i is the second of a quoted pair.
func escaped(s string, i int) bool {
	n := 0
	for i--; i >= 0 && s[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// forwardedElement reads the parameter "for" of an element of Forwarded (RFC
// 7239, section 4). An element that has none, or two, is not valid.
func forwardedElement(s string) (ip netip.Addr, ok bool) {
	for more := true; more; {
		var pair string
		s, pair, more = cutLast(s, ';', true)
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(trim(name), "for") {
			continue
		}
		if ok {
			return netip.Addr{}, false
		}
		value, whole := unquoted(trim(value))
		// Without brackets an address is ambiguous: it could have a port.
		bare := strings.Count(value, ":") > 1 && !strings.HasPrefix(value, "[")
		if ip, ok = forwardedFor(value); !ok || !whole || bare {
			return netip.Addr{}, false
		}
	}
	return ip, ok
}

// unquoted removes the quotation marks and the escapes. whole is false if the text begins with
// a quotation mark and does not end with one.
func unquoted(s string) (value string, whole bool) {
	if !strings.HasPrefix(s, `"`) {
		return s, true
	}
	if len(s) < 2 || s[len(s)-1] != '"' || escaped(s, len(s)-1) {
		return "", false
	}
	s = s[1 : len(s)-1]
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}

// forwardedFor reads one address of X-Forwarded-For: IPv4 or IPv6,
// the latter in brackets or not, with or without a port and a zone.
func forwardedFor(s string) (netip.Addr, bool) {
	s = trim(s)
	if len(s) > maxAddress {
		return netip.Addr{}, false
	}
	host := s
	if rest, ok := strings.CutPrefix(s, "["); ok {
		var after string
		if host, after, ok = strings.Cut(rest, "]"); !ok || after != "" && !isPort(after) || !strings.Contains(host, ":") {
			return netip.Addr{}, false
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.LastIndexByte(s, ':') == i {
		if host = s[:i]; !isPort(s[i:]) {
			return netip.Addr{}, false
		}
	}
	ip, err := netip.ParseAddr(host)
	if ip = ip.Unmap().WithZone(""); err != nil || ip.IsUnspecified() {
		return netip.Addr{}, false
	}
	return ip, true
}

// maxAddress is the longest text of an address: the longest IPv6 address, a zone, a port,
// brackets.
const maxAddress = 128

// isPort reads a colon and a port (RFC 7239, section 6), which may be obfuscated.
func isPort(s string) bool {
	s, ok := strings.CutPrefix(s, ":")
	if !ok || s == "" {
		return false
	}
	if s[0] == '_' {
		return strings.Trim(s, "._-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && len(s) > 1
	}
	return len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}

// trim removes optional whitespace (RFC 9110, section 5.6.3).
func trim(s string) string { return strings.Trim(s, " \t") }
