package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strings"

	"github.com/wskit/wskit/ingress"
)

// Claim is the identity that a request claims, before it has been verified. It has the hash of
// a secret, never the secret itself. So it may be part of a key, a log or a metric.
type Claim struct {
	// Kind says what ID is: "session", "bearer", "apikey", "ip", or the kind given
	// to [BySecret] and [ByName]. Claims of different kinds are never equal.
	Kind string
	// ID is 32 hexadecimal digits if it is the hash of a secret.
	ID string
}

// String returns "kind:id".
func (s Claim) String() string { return s.Kind + ":" + s.ID }

// An Identifier returns the claim of a request, and whether it has one. It is called for every
// handshake, concurrently and before anything has been verified, and must be cheap.
type Identifier func(*http.Request) (Claim, bool)

// FirstOf returns the first claim that one of the identifiers finds:
//
//	gate.FirstOf(gate.BySession("sid"), gate.ByBearer, gate.ByAPIKey("X-API-Key"), gate.ByIP(clientIP))
//
// A client can invent claims at no cost. A limit by claim protects the clients of one address
// from each other. It needs a limit by address above it, as a connection gate has: otherwise a
// client could send a new value with each request.
func FirstOf(identifiers ...Identifier) Identifier {
	return func(r *http.Request) (Claim, bool) {
		for _, identify := range identifiers {
			if s, ok := identify(r); ok {
				return s, true
			}
		}
		return Claim{}, false
	}
}

// BySession identifies a client by the session cookie of a name, hashed.
func BySession(cookie string) Identifier {
	return BySecret("session", func(r *http.Request) string {
		c, err := r.Cookie(cookie)
		if err != nil {
			return ""
		}
		return c.Value
	})
}

// ByBearer identifies a client by the token that [ingress.Token] finds, hashed.
func ByBearer(r *http.Request) (Claim, bool) { return byBearer(r) }

var byBearer = BySecret("bearer", ingress.Token)

// ByAPIKey identifies a client by the API key in a header field, hashed as a whole. (With the
// public part of a key alone, one client could use up the limit of another.) If a key has no
// secret part, use [ByName].
func ByAPIKey(header string) Identifier {
	return BySecret("apikey", func(r *http.Request) string { return r.Header.Get(header) })
}

// ByIP identifies a client by its address as clientIP finds it, IPv6 by its /64.
// Clients without an address have no claim.
func ByIP(clientIP func(*http.Request) netip.Addr) Identifier {
	return func(r *http.Request) (Claim, bool) {
		ip := ingress.GroupIP(clientIP(r))
		return Claim{Kind: "ip", ID: ip.String()}, ip.IsValid()
	}
}

// maxSecret is the longest secret that is hashed for a client that is not authenticated.
const maxSecret = 8 << 10

// BySecret identifies a client by a secret of the request. The claim has half of the SHA-256
// of the secret, and not the secret. A request for which of returns "", or more than 8 KiB, has
// no claim. BySecret panics if the kind has other characters than lower-case letters, digits
// and '-'.
func BySecret(kind string, of func(*http.Request) string) Identifier {
	mustBeKind(kind)
	return func(r *http.Request) (Claim, bool) {
		secret := of(r)
		if secret == "" || len(secret) > maxSecret {
			return Claim{}, false
		}
		sum := sha256.Sum256([]byte(secret))
		return Claim{Kind: kind, ID: hex.EncodeToString(sum[:16])}, true
	}
}

// ByName identifies a client by a value that is not secret, such as the public id of an API
// key. The claim has the value itself. A request for which of returns "", or more than 256
// bytes, has no claim. ByName panics as [BySecret] does.
func ByName(kind string, of func(*http.Request) string) Identifier {
	mustBeKind(kind)
	return func(r *http.Request) (Claim, bool) {
		id := of(r)
		return Claim{Kind: kind, ID: id}, id != "" && len(id) <= 256
	}
}

func mustBeKind(kind string) {
	if kind == "" || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		panic("gate: the kind of a claim is " + kind + "; use lower-case letters, digits and '-', such as \"device\"")
	}
}
