package ingress

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/wskit/wskit/internal/handshake"
)

// Token returns the token of a handshake, or "" when it has none. It looks, in
// this order, for an Authorization header of the Bearer scheme; a subprotocol of
// the form bearer.<token>; and the query parameter access_token, which proxies
// may log. Pages cannot set the header. A page that sends the subprotocol has to
// offer a second one, because browsers fail a connection for which none is selected:
//
//	new WebSocket(url, ["chat", "bearer." + token])
//
// A subprotocol may contain letters, digits and !#$%&'*+-.^_`|~ only: a token with
// other characters has to be encoded, for instance in unpadded base64url.
func Token(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if _, token := handshake.Subprotocols(r); token != "" {
		return token
	}
	if r.URL == nil {
		return ""
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return ""
	}
	return q.Get("access_token")
}
