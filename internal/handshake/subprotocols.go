package handshake

import (
	"net/http"
	"strings"
)

// tokenSubprotocol begins a subprotocol that is a token, in any case.
const tokenSubprotocol = "bearer."

// Subprotocols returns the subprotocols that the client of a handshake offers, in
// its order, and separately the first token among them: a token must never be selected,
// because the answer of a handshake may be logged.
func Subprotocols(r *http.Request) (offered []string, token string) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			p = strings.TrimSpace(p)
			switch n := len(tokenSubprotocol); {
			case len(p) >= n && strings.EqualFold(p[:n], tokenSubprotocol):
				if token == "" {
					token = p[n:]
				}
			case p != "":
				offered = append(offered, p)
			}
		}
	}
	return offered, token
}
