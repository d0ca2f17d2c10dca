package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// identify tells tabs apart, for a chat without accounts or cookies.
//
// Every tab makes up a random token, keeps it for as long as it is open and
// brings it with each connection. So two tabs are two members with a limit each,
// and a tab that reconnects is the member it was, with what is left of its limit.
// Nothing is proven by this: whoever makes up a new token is somebody new. That
// is why the limits in limits.go have a ceiling for the address above them.
//
// The others see a hash of the token, and it stands in the keys of the limits:
// the token itself, with which one could pass for its tab, stays here.
func identify(r *http.Request) (ingress.Identity, error) {
	token := ingress.Token(r)
	if len(token) < 16 || len(token) > 64 {
		return ingress.Identity{}, errors.Unauthenticated.New("connect with a random token of 16 to 64 characters as the subprotocol bearer.<token>")
	}
	sum := sha256.Sum256([]byte(token))
	return ingress.Identity{User: hex.EncodeToString(sum[:8])}, nil
}
