package inspect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
)

// What a viewer with Viewer.Actions changes. The texts of errors are for the operator.

// isAction are the queries that change something.
var isAction = map[string]bool{"close": true, "ban": true, "unban": true, "revoke": true, "rules": true}

// once reports whether a query is for this process alone: what it does reaches the others.
func (i *inspector) once(do string) bool {
	return do == "ban" || do == "revoke" || do == "rules" && i.o.Shared != nil
}

// ban lasts as long as the query says. The store has all processes find it.
func (i *inspector) ban(ctx context.Context, q query) error {
	c, err := i.banned(q)
	if err != nil {
		return err
	}
	return i.o.Bans.Ban(ctx, c.IP, c.Identity, time.Duration(q.Seconds)*time.Second)
}

func (i *inspector) unban(ctx context.Context, q query) error {
	c, err := i.banned(q)
	if err != nil {
		return err
	}
	return i.o.Bans.Unban(ctx, c.IP, c.Identity)
}

// banned is the client of a query, where there are bans.
func (i *inspector) banned(q query) (*ingress.Context, error) {
	if i.o.Bans == nil {
		return nil, errNoBans
	}
	return q.subject()
}

var (
	errNoBans  = errors.New("this process has no bans")
	errNoRules = errors.New("this process has no rules")
	errChanged = errors.New("other rules were set since these were shown; look at the difference again")
)

func (i *inspector) revoke(ctx context.Context, q query) error {
	return i.r.Revoke(ctx, router.Right{Tenant: q.Tenant, User: q.User, Topics: q.Topics})
}

func (i *inspector) replaceRules(ctx context.Context, document string) error {
	switch {
	case i.o.Shared != nil:
		return i.o.Shared.Replace(ctx, []byte(document))
	case i.o.Rules == nil:
		return errNoRules
	}
	parsed, err := rules.Parse([]byte(document))
	if err != nil {
		return err
	}
	return i.o.Rules.Replace(parsed)
}

// rules are those in force as a document, and what tells them from others.
func (i *inspector) rules() (document, version string, err error) {
	if i.o.Rules == nil {
		return "", "", errNoRules
	}
	b, err := json.Marshal(i.o.Rules.Rules())
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(b)
	var indented bytes.Buffer
	if err := json.Indent(&indented, b, "", "  "); err != nil {
		return "", "", err
	}
	return indented.String(), hex.EncodeToString(sum[:8]), nil
}

// changed reports whether rules are to be replaced that are not those the viewer has seen.
func (i *inspector) changed(q query) bool {
	if q.Do != "rules" || q.Base == "" {
		return false
	}
	_, version, err := i.rules()
	return err == nil && version != q.Base
}
