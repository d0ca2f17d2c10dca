package handshake

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Tokens says where the handshakes of a server have their token. Empty fields stand for the
// defaults.
type Tokens struct {
	Prefix string // of a subprotocol that is a token, in any case; "bearer."
	Query  string // the parameter; "access_token"
}

var defaultTokens = Tokens{Prefix: "bearer.", Query: "access_token"}

type tokensKey struct{}

// With returns the request with the places of its token, for the functions of this package.
func (t Tokens) With(r *http.Request) *http.Request {
	if t == (Tokens{}) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), tokensKey{}, t))
}

func tokensOf(r *http.Request) Tokens {
	t, _ := r.Context().Value(tokensKey{}).(Tokens)
	if t.Prefix == "" {
		t.Prefix = defaultTokens.Prefix
	}
	if t.Query == "" {
		t.Query = defaultTokens.Query
	}
	return t
}

// Token returns the token that a handshake has as a subprotocol or else in its query, or "".
func Token(r *http.Request) string {
	t := tokensOf(r)
	_, tokens := offers(r)
	for _, p := range tokens {
		if token, _ := cutPrefix(p, t.Prefix); token != "" {
			return token
		}
	}
	if r.URL == nil {
		return ""
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return ""
	}
	return q.Get(t.Query)
}

// Select returns the subprotocol that is selected: of those that the server supports the first that
// the client offers, in its spelling; or, if the server names none, the first that it offers. The
// answer of a handshake may be logged, so a token is selected only if nothing else is offered:
// browsers fail a connection for which none of their offers is selected.
func Select(r *http.Request, supported []string) string {
	offered, tokens := offers(r)
	switch {
	case len(offered) == 0 && len(tokens) > 0:
		return tokens[0]
	case len(offered) == 0:
		return ""
	case len(supported) == 0:
		return offered[0]
	}
	for _, p := range supported {
		if i := slices.IndexFunc(offered, func(o string) bool { return strings.EqualFold(o, p) }); i >= 0 {
			return offered[i]
		}
	}
	return ""
}

// offers returns the subprotocols that the client of a handshake offers, in its order, and
// separately those that are tokens. One with the default prefix counts as a token also where
// another prefix is set: it may be one of a client that does not know.
func offers(r *http.Request) (offered, tokens []string) {
	prefix := tokensOf(r).Prefix
	for _, line := range r.Header[fieldProtocol] {
		for p := range strings.SplitSeq(line, ",") {
			p = strings.TrimSpace(p)
			_, token := cutPrefix(p, prefix)
			_, byDefault := cutPrefix(p, defaultTokens.Prefix)
			switch {
			case token || byDefault:
				tokens = append(tokens, p)
			case p != "":
				offered = append(offered, p)
			}
		}
	}
	return offered, tokens
}

// cutPrefix ignores case.
func cutPrefix(p, prefix string) (rest string, ok bool) {
	if len(p) < len(prefix) || !strings.EqualFold(p[:len(prefix)], prefix) {
		return "", false
	}
	return p[len(prefix):], true
}

// IsToken reports whether a text has only the characters of a subprotocol (RFC 9110, section 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		if !isToken(s[i]) {
			return false
		}
	}
	return s != ""
}
