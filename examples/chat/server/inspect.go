package server

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/middleware/ratelimit"
)

// inspector shows the chat to those that have the token. A server with accounts would look who it
// is, and what it may do.
func (chat *Chat) inspector(token string) http.Handler {
	return inspect.Handler(chat.Router, inspect.Options{
		Authorize: func(r *http.Request) (inspect.Viewer, error) {
			got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if subtle.ConstantTimeCompare([]byte(got), []byte(token)) != 1 {
				return inspect.Viewer{}, errors.Unauthenticated.New("send the token that the chat has printed")
			}
			return inspect.Viewer{Name: "operator", Actions: true, Payloads: true}, nil
		},
		Limits: []inspect.Limit{
			{Limiter: chat.limits.tab, Key: ratelimit.PerUserPerType},
			{Limiter: chat.limits.address, Key: ratelimit.PerIP},
		},
		Bans: chat.limits.bans,
	})
}
