package handshake

import (
	"net/http"
	"strings"
)

// Deflate chooses among the offers of permessage-deflate in a handshake. It returns
// the value of the answer's Sec-WebSocket-Extensions for the first offer that can be
// accepted, and "" if there is none. Neither side keeps its context from one message
// to the next.
//
// An offer is declined if it has a parameter that is not defined, twice the same, or
// a value that is not allowed (RFC 7692, section 7.1.2), and if it asks for a window
// smaller than the 32 KiB that compress/flate uses.
func Deflate(r *http.Request) string {
	for _, line := range r.Header[fieldExtensions] {
		p := parser(line)
		for {
			answer, ok := p.offer()
			if !ok {
				break // a line that cannot be read offers nothing more
			}
			if answer != "" {
				return answer
			}
			if !p.skip(',') {
				break
			}
		}
	}
	return ""
}

// parser reads a list of extensions (RFC 6455, section 9.1).
type parser string

// offer reads one extension with its parameters. answer is "" if it is declined.
func (p *parser) offer() (answer string, ok bool) {
	for p.skip(',') { // an empty element of the list
	}
	name := p.token()
	if name == "" {
		return "", false
	}
	accepted := strings.EqualFold(name, "permessage-deflate")
	answer = "permessage-deflate; client_no_context_takeover; server_no_context_takeover"
	seen := make(map[string]bool)
	for p.skip(';') {
		param := strings.ToLower(p.token())
		if param == "" {
			return "", false
		}
		value, valued := "", p.skip('=')
		if valued {
			if value, ok = p.value(); !ok {
				return "", false
			}
		}
		if seen[param] {
			accepted = false
		}
		seen[param] = true
		switch param {
		case "client_no_context_takeover", "server_no_context_takeover":
			accepted = accepted && !valued
		case "client_max_window_bits":
			// A smaller window than we could read needs no answer.
			accepted = accepted && (!valued || windowBits(value))
		case "server_max_window_bits":
			accepted = accepted && value == "15"
			answer += "; server_max_window_bits=15"
		default:
			accepted = false
		}
	}
	p.space()
	if *p != "" && (*p)[0] != ',' {
		return "", false
	}
	if !accepted {
		answer = ""
	}
	return answer, true
}

// windowBits reports whether a value is a number from 8 to 15 without leading zeros.
func windowBits(v string) bool {
	return v == "8" || v == "9" || len(v) == 2 && v[0] == '1' && v[1] >= '0' && v[1] <= '5'
}

func (p *parser) space() { *p = parser(strings.TrimLeft(string(*p), " \t")) }

func (p *parser) skip(c byte) bool {
	p.space()
	if *p == "" || (*p)[0] != c {
		return false
	}
	*p = (*p)[1:]
	return true
}

// token reads a token (RFC 9110, section 5.6.2); it is empty if there is none.
func (p *parser) token() string {
	p.space()
	i := 0
	for i < len(*p) && isToken((*p)[i]) {
		i++
	}
	t := string((*p)[:i])
	*p = (*p)[i:]
	return t
}

func isToken(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// value reads a token or a quoted string that holds one.
func (p *parser) value() (string, bool) {
	if !p.skip('"') {
		v := p.token()
		return v, v != ""
	}
	var v []byte
	for i := 0; i < len(*p); i++ {
		switch c := (*p)[i]; c {
		case '"':
			*p = (*p)[i+1:]
			return string(v), len(v) > 0
		case '\\':
			if i++; i == len(*p) {
				return "", false
			}
			c = (*p)[i]
			fallthrough
		default:
			if !isToken(c) {
				return "", false
			}
			v = append(v, c)
		}
	}
	return "", false
}
