package ingress

import (
	"net/http"
	"strings"

	"github.com/wskit/wskit/internal/handshake"
)

// Token returns the token of a handshake, or "" when it has none. It looks, in
// this order, for an Authorization header of the Bearer scheme; a subprotocol of
// the form bearer.<token>; and the query parameter access_token, which proxies
// may log. router.Options.Handshake.TokenSubprotocol and TokenQuery set other names. Pages cannot set the
// header. A page that sends the subprotocol should offer a second one:
//
//	new WebSocket(url, ["chat", "bearer." + token])
//
// The server selects the second one. If the token is the only one, it is selected, because browsers
// fail a connection for which none is selected; then it is part of the answer, too.
//
// A subprotocol may contain letters, digits and !#$%&'*+-.^_`|~ only: a token with
// other characters has to be encoded, for instance in unpadded base64url.
func Token(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return handshake.Token(r)
}
