package router

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/given"
)

// Registrar is where types are registered: a [Router] or one of its groups.
type Registrar interface {
	group() *Group
}

// Group is a set of routes with a common prefix, common options and middleware of their own. A
// package can register its types into a Group that it gets as an argument. Its methods may be
// called from any goroutine.
type Group struct {
	router *Router
	parent *Group // nil for the outermost one, which every router has
	prefix string // with those of its parents
	opts   RouteOptions
	with   bool // made by With: before is its routes' own
	before []ingress.Middleware
	around []Middleware
}

func (r *Router) group() *Group { return &r.top }
func (g *Group) group() *Group  { return g }

// Group makes a group of routes whose types, and those of their replies, begin with a prefix,
// which may be empty. The options apply to all routes of the group: Concurrent, Exempt,
// Silent and Strict cannot be unset by a route, Timeout, MaxPayload and Priority are defaults. Reply, Progress
// and Doc are for routes alone. At most one RouteOptions may be given.
func (r *Router) Group(prefix string, opts ...RouteOptions) *Group {
	return r.top.Group(prefix, opts...)
}

// Group makes a group within the group. Its prefix follows that of the outer group, and its
// middleware runs inside of that of the outer group.
func (g *Group) Group(prefix string, opts ...RouteOptions) *Group {
	prefix = g.prefix + prefix
	what := "the group " + strconv.Quote(prefix)
	o := given.Must("router", what, opts)
	if o.Reply != "" || o.Progress != nil || o.Doc != "" {
		panic("router: " + what + " has a Reply, Progress or Doc; give them to its routes")
	}
	o.check(what)
	inner := &Group{router: g.router, parent: g, prefix: prefix, opts: o}
	inner.opts.inherit(g)
	return inner
}

// With returns a group with the prefix and options of the router, whose routes have middleware of their own:
//
//	router.RPC(r.With(ratelimit.New(searches, ratelimit.PerUser)), "search", search)
//
// See [Group.With].
func (r *Router) With(middleware ...ingress.Middleware) *Group { return r.top.With(middleware...) }

// With returns a group within the group, with the same prefix and options, whose routes have middleware of their own,
// such as a limit for one type. It runs before the payload is decoded, after that of the router and of groups, and
// the first is the outermost. Routes that are Exempt are charged by it, and by no other.
func (g *Group) With(middleware ...ingress.Middleware) *Group {
	mustBeMiddleware("With", middleware)
	inner := g.Group("")
	inner.with, inner.before = true, slices.Clone(middleware)
	return inner
}

// mustBeMiddleware panics if one is nil: its first frame would.
func mustBeMiddleware[M ~func(H) H, H any](method string, middleware []M) {
	for i, m := range middleware {
		if m == nil {
			panic("router: argument " + strconv.Itoa(i+1) + " of " + method + " is nil; remove it from the list")
		}
	}
}

// Use adds middleware for every frame of the group's types, which runs before the payload
// is decoded, and after that of the router and of outer groups. See [Router.Use].
// Frames that are too large or malformed do not reach it. The Middleware function is called once
// for each route of the group.
func (g *Group) Use(middleware ...ingress.Middleware) {
	mustBeMiddleware("Use", middleware)
	g.router.configure("Use", func() { g.before = append(g.before, middleware...) })
}

// UseHandler adds middleware around the handlers of the group's routes, inside of that of the router
// and of outer groups. See [Router.UseHandler].
func (g *Group) UseHandler(middleware ...Middleware) {
	mustBeMiddleware("UseHandler", middleware)
	g.router.configure("UseHandler", func() { g.around = append(g.around, middleware...) })
}

// configure calls change, and panics once a connection is served.
func (r *Router) configure(method string, change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen.Load() != nil {
		panic("router: " + method + " is called after the router has served a connection; add all middleware and hooks before http.Serve")
	}
	change()
}

// inherit applies the options of a group.
func (o *RouteOptions) inherit(g *Group) {
	o.Concurrent = o.Concurrent || g.opts.Concurrent
	o.Strict = o.Strict || g.opts.Strict
	o.Silent = o.Silent || g.opts.Silent
	o.Timeout = cmp.Or(o.Timeout, g.opts.Timeout)
	o.MaxPayload = cmp.Or(o.MaxPayload, g.opts.MaxPayload)
	o.Priority = cmp.Or(o.Priority, g.opts.Priority)
}

// own is what a route, or one of its groups, changes before a frame is decoded.
type own struct {
	ingress    ingress.Handler // the middleware of its groups and its own; nil: none
	exempt     bool            // see RouteOptions.Exempt
	silent     bool            // see RouteOptions.Silent
	maxPayload int
}

// compose returns nil for a route that is processed like all others, as most are.
func (rt *route) compose(limits *Limits) *own {
	o := own{ingress: ingress.Pass, exempt: rt.exempt(), silent: rt.opts.Silent, maxPayload: cmp.Or(rt.opts.MaxPayload, limits.MaxPayload)}
	used, outside := false, false // of the innermost exemption
	add := func(exempt bool, middleware []ingress.Middleware) {
		used = used || len(middleware) > 0
		o.ingress = wrapped(o.ingress, middleware)
		if exempt && !outside {
			outside = true
			o.ingress = charged(o.ingress)
		}
	}
	g := rt.group
	for ; g.with; g = g.parent {
		add(false, g.before)
	}
	add(rt.opts.Exempt, nil)
	for ; g.parent != nil; g = g.parent {
		add(g.opts.Exempt, g.before)
	}
	if !used {
		o.ingress = nil
	}
	if !used && !o.exempt && !o.silent && o.maxPayload == limits.MaxPayload {
		return nil
	}
	return &o
}

// exempt reports whether any middleware does not charge the route.
func (rt *route) exempt() bool {
	exempt := rt.opts.Exempt
	for g := rt.group; g != nil; g = g.parent {
		exempt = exempt || g.opts.Exempt
	}
	return exempt
}

// charged ends an exemption: the middleware inside of it charges the frame.
func charged(next ingress.Handler) ingress.Handler {
	return func(c *ingress.Context) error {
		c.Exempt = false
		err := next(c)
		c.Exempt = true
		return err
	}
}

// passOwn is the innermost handler of the router's ingress middleware if a route has its own.
func passOwn(c *ingress.Context) error {
	if o, ok := c.State.Own.(*own); ok && o.ingress != nil {
		return o.ingress(c)
	}
	return ingress.Pass(c)
}
