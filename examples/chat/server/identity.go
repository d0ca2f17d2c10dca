package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// identify identifies tabs, in a chat without accounts or cookies.
//
// Every tab makes a random token, keeps it while it is open, and sends it with each connection.
// So two tabs are two members with a limit each, and a tab that reconnects is the same member,
// with the same limit. This is not authentication: a tab with a new token is a new member.
// Therefore the limits in limits.go also have a limit for the address.
//
// Other members and the keys of the limits get a hash of the token. The token itself is secret,
// because another client could use it to be the same member.
//
// The token of a moderator has a dot and the key behind it.
func identify(moderatorKey string) func(*http.Request) (ingress.Identity, error) {
	return func(r *http.Request) (ingress.Identity, error) {
		token, key, moderates := strings.Cut(ingress.Token(r), ".")
		id, err := member(token)
		if err != nil || !moderates {
			return id, err
		}
		if moderatorKey == "" || subtle.ConstantTimeCompare([]byte(key), []byte(moderatorKey)) != 1 {
			return id, errors.Unauthenticated.New("this is not the key of the moderators; open the page without it")
		}
		id.Roles = []string{moderator}
		return id, nil
	}
}

func member(token string) (ingress.Identity, error) {
	if len(token) < 16 || len(token) > 64 {
		return ingress.Identity{}, errors.Unauthenticated.New("connect with a random token of 16 to 64 characters as the subprotocol bearer.<token>")
	}
	sum := sha256.Sum256([]byte(token))
	return ingress.Identity{User: hex.EncodeToString(sum[:8])}, nil
}
