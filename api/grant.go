package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/pattern"
	"github.com/wskit/wskit/limit"
)

// Grant is what the sender of a request may do.
type Grant struct {
	// Name is that of the sender, in the log and for idempotency keys. From 1 to 128 bytes.
	Name string
	// Calls are the calls that it may make, by name.
	//
	// Default: all.
	Calls []string
	// Tenants are those whose users it may address. With it, it may address neither single connections, nor all, nor an
	// IP.
	//
	// Default: all.
	Tenants []string
	// Topics are those that it may use: names, and beginnings of names followed by "*".
	//
	// Default: all.
	Topics []string
	// Limit bounds its calls: each costs 1, also those of a batch, under the Name as key.
	//
	// Default: none.
	Limit *limit.Limiter
	// Check refuses single calls by its error. It is called concurrently.
	//
	// Default: none.
	Check func(Call) error
}

// Call is what a request asks for.
type Call struct {
	// Name is that of the call, such as "publish".
	Name string
	// Tenant and User are a user whose connections or limits the call is about, IP an address.
	Tenant, User, IP string
	// Connection is the id of one connection; with All it is about all of them.
	Connection string
	All        bool
	// Topics are those that it uses; for revoke also a beginning of names followed by "*".
	Topics []string
	// Event is the type of what it sends, or of the question that it asks.
	Event string
}

// Secrets is for [Options.Authorize]: a grant for each secret, which is sent as Authorization: Bearer. Secrets are
// compared in a time that does not depend on them. To replace one, let two have the same grant for a while. It panics
// if a secret has less than 16 bytes, and if a grant makes no sense.
func Secrets(grants map[string]Grant) func(*http.Request) (Grant, error) {
	type entry struct {
		sum   [sha256.Size]byte
		grant Grant
	}
	var all []entry
	for secret, g := range grants {
		if err := g.check(); err != nil {
			panic(err)
		}
		if len(secret) < 16 {
			const short = "api: the secret of %q has %d bytes; give it at least 16 random ones"
			panic(fmt.Sprintf(short, g.Name, len(secret)))
		}
		all = append(all, entry{sha256.Sum256([]byte(secret)), g})
	}
	return func(r *http.Request) (Grant, error) {
		sum := sha256.Sum256([]byte(ingress.Token(r)))
		found := -1
		for i := range all {
			if subtle.ConstantTimeCompare(sum[:], all[i].sum[:]) == 1 {
				found = i
			}
		}
		if found < 0 {
			return Grant{}, errors.Unauthenticated.New("send a secret of this server as Authorization: Bearer")
		}
		return all[found].grant, nil
	}
}

func (g Grant) check() error {
	if g.Name == "" || len(g.Name) > maxName {
		return fmt.Errorf("api: a Grant has the name %q; give it one of 1 to %d bytes", g.Name, maxName)
	}
	for _, name := range g.Calls {
		if !slices.ContainsFunc(allCalls, func(c *call) bool { return c.name == name }) {
			return fmt.Errorf("api: the Grant %q has the call %q, which does not exist; docs/other-services.md lists them; use one",
				g.Name, name)
		}
	}
	return nil
}

// allows returns an error for a call that the sender may not make now.
func (g Grant) allows(ctx context.Context, c Call) error {
	addressed := c.User != "" || c.IP != "" || c.Connection != "" || c.All
	switch {
	case g.Calls != nil && !slices.Contains(g.Calls, c.Name):
		return errors.PermissionDenied.Errorf("this secret is not for the call %s", c.Name)
	case g.Tenants != nil && addressed && (c.User == "" || !slices.Contains(g.Tenants, c.Tenant)):
		return errors.PermissionDenied.New("this secret is for users of other tenants")
	}
	for _, topic := range c.Topics {
		if g.Topics != nil && !slices.ContainsFunc(g.Topics, func(p string) bool { return pattern.Covers(p, topic) }) {
			return errors.PermissionDenied.Errorf("this secret is not for the topic %s", topic)
		}
	}
	if g.Check != nil {
		if err := g.Check(c); err != nil {
			return err
		}
	}
	if g.Limit == nil {
		return nil
	}
	d, err := g.Limit.Take(ctx, limit.KeyOf(g.Name), 1)
	switch {
	case err != nil:
		return err
	case d.Allowed:
		return nil
	}
	return &errors.Error{
		Code: errors.ResourceExhausted, Message: "too many calls with this secret",
		Retry: true, RetryAfter: d.RetryAfter,
	}
}
