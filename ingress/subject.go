package ingress

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strings"
)

// Subject is who a request claims to come from, before that has been verified. It
// holds no secret: what identifies a client by something that only the client may
// know, holds a hash of it. So it may stand in a key, a log or a metric.
type Claim struct {
	// Kind says what ID is: "session", "bearer", "apikey", "ip", or the kind given
	// to [BySecret] and [ByName]. Subjects of different kinds never collide.
	Kind string
	// ID is 32 hexadecimal digits where it stands for a secret.
	ID string
}

// String returns "kind:id".
func (s Claim) String() string { return s.Kind + ":" + s.ID }

// An Identifier finds out who a request claims to come from, and whether it says.
// It runs for every handshake, before anything has been verified, and must be
// cheap.
type Identifier func(*http.Request) (Claim, bool)

// FirstOf asks one identifier after the other:
//
//	ingress.FirstOf(ingress.BySession("sid"), ingress.ByBearer, ingress.ByAPIKey("X-API-Key"), ingress.ByIP(clientIP))
//
// A claim costs nothing to make up. A limit by such a subject keeps one client
// from taking what is others' at the same address; it needs the address's own limit
// above it, as a connection gate has, or a random value per request would begin afresh
// each time.
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

// ByBearer identifies a client by the token that [Token] finds, hashed.
func ByBearer(r *http.Request) (Claim, bool) { return byBearer(r) }

var byBearer = BySecret("bearer", Token)

// ByAPIKey identifies a client by the API key in a header field, hashed as a
// whole: by its public part alone, anybody could use up somebody else's limit. Where
// that part is all there is, use [ByName].
func ByAPIKey(header string) Identifier {
	return BySecret("apikey", func(r *http.Request) string { return r.Header.Get(header) })
}

// ByIP identifies a client by its address as clientIP finds it, IPv6 by its /64.
// Clients without an address are not identified.
func ByIP(clientIP func(*http.Request) netip.Addr) Identifier {
	return func(r *http.Request) (Claim, bool) {
		ip := GroupIP(clientIP(r))
		return Claim{Kind: "ip", ID: ip.String()}, ip.IsValid()
	}
}

// maxSecret bounds what is hashed for a client that has proven nothing.
const maxSecret = 8 << 10

// BySecret identifies a client by something that only it should know. What of
// returns never leaves this function: half of its SHA-256, with the kind, stands
// for it. A request for which of returns nothing, or more than 8 KiB, is not
// identified.
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

// ByName identifies a client by something that is no secret, such as the public id
// of an API key. It is kept as it is; a request for which of returns nothing, or
// more than 256 bytes, is not identified.
func ByName(kind string, of func(*http.Request) string) Identifier {
	mustBeKind(kind)
	return func(r *http.Request) (Claim, bool) {
		id := of(r)
		return Claim{Kind: kind, ID: id}, id != "" && len(id) <= 256
	}
}

func mustBeKind(kind string) {
	if kind == "" || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		panic("ingress: a subject's kind is " + kind + "; use lower-case letters, digits and '-', such as \"device\"")
	}
}
