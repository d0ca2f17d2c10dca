package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// identify takes a random token for the user: a device with the same one is another device of that user. It is no
// authentication.
func identify(req *http.Request) (ingress.Identity, error) {
	token := ingress.Token(req)
	if len(token) < 16 || len(token) > 64 {
		return ingress.Identity{}, errors.Unauthenticated.New("connect with a random token of 16 to 64 characters")
	}
	sum := sha256.Sum256([]byte(token))
	return ingress.Identity{User: hex.EncodeToString(sum[:8])}, nil
}
