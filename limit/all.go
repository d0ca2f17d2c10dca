package limit

import (
	"fmt"
	"strings"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/engine"
)

// All makes one policy of several for the same subject, such as 10 a second and 1,000 a day. A cost
// is charged to all of them or, when one denies it, to none, in one atomic step. The decision is
// that of one policy: of those that deny, the one with the longest wait; when all allow, the one
// that has the least left. It is impossible when it is for any of them, and ResetAfter is the
// longest of all.
//
// An All within an All is flattened. At most 8 policies may be given.
func All(policies ...Policy) Policy {
	var a all
	for _, p := range policies {
		a.add(p)
	}
	return a
}

// all is an array rather than a slice, so that it can be compared like any other policy.
type all struct {
	parts [engine.MaxParts]Policy
	n     int // how many were given, which may be more than there is room for
}

func (a *all) add(p Policy) {
	switch p := p.(type) {
	case all:
		for i := range min(p.n, len(p.parts)) {
			a.add(p.parts[i])
		}
		a.n += max(0, p.n-len(p.parts))
	default:
		if a.n < len(a.parts) {
			a.parts[a.n] = p
		}
		a.n++
	}
}

// String returns "all(…,…)".
func (a all) String() string {
	names := make([]string, min(a.n, len(a.parts)))
	for i := range names {
		names[i] = "nil"
		if p := a.parts[i]; p != nil {
			names[i] = p.String()
		}
	}
	return "all(" + strings.Join(names, ",") + ")"
}

func (a all) compile() (*engine.Plan, error) {
	if a.n == 0 {
		return nil, errors.New("limit: All without a policy: give it at least one; nothing means unlimited by being empty")
	}
	parts := make([]*engine.Plan, 0, a.n)
	for _, p := range a.parts[:min(a.n, len(a.parts))] {
		plan, err := compile(p)
		if err != nil {
			return nil, fmt.Errorf("%w (in All)", err)
		}
		parts = append(parts, plan.Parts...)
	}
	if n := len(parts) + max(0, a.n-len(a.parts)); n > engine.MaxParts {
		return nil, fmt.Errorf("limit: All of %d policies: at most %d are allowed", n, engine.MaxParts)
	}
	return engine.All(a, parts), nil
}
