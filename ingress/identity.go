package ingress

import (
	"slices"
	"sync"
	"time"
)

// Identity is the authenticated identity of a connection. The zero Identity is a client that
// was not authenticated.
type Identity struct {
	// Tenant is the customer or organisation; empty if there is only one.
	Tenant string
	// User identifies the user within the tenant; empty means not authenticated.
	User string
	// Tier is a plan or class by which middleware may choose limits.
	Tier string
	// Roles are the names of the user's roles, see [RequireRole].
	Roles []string
	// ExpiresAt is when the identity expires, such as the expiry of its token; the zero Time
	// means never. The router closes the connection then, unless the client has renewed the
	// identity (router.Options.Renew). It is compared with the wall clock.
	ExpiresAt time.Time

	bag *values
}

// Authenticated reports whether the identity names a user.
func (id *Identity) Authenticated() bool { return id.User != "" }

// HasRole reports whether a role is one of Roles.
func (id *Identity) HasRole(role string) bool { return slices.Contains(id.Roles, role) }

// Expired reports whether the identity has expired at a time.
func (id *Identity) Expired(at time.Time) bool {
	return !id.ExpiresAt.IsZero() && !at.Before(id.ExpiresAt)
}

func (id *Identity) values() *values {
	if id.bag == nil {
		id.bag = new(values)
	}
	return id.bag
}

// Own gives the identity its own copy of Roles and of the values that were stored with it. Later
// copies of the identity share the new values, earlier ones do not. The router calls it once for
// each connection, so that connections with the same identity, for instance from a cache, do not
// share values.
func (id *Identity) Own() {
	id.ownFields()
	own := new(values)
	if id.bag != nil {
		own.list = id.bag.all()
	}
	id.bag = own
}

// OwnAs is [Identity.Own] for an identity that replaces another one of the same connection: it
// shares the values of the other one, and those that were stored with id itself replace them.
func (id *Identity) OwnAs(replaced *Identity) {
	id.ownFields()
	set := id.bag
	id.bag = replaced.values()
	if set == nil || set == id.bag {
		return
	}
	for _, e := range set.all() {
		id.bag.set(e.key, e.value)
	}
}

func (id *Identity) ownFields() {
	id.Roles = slices.Clone(id.Roles)
	id.ExpiresAt = id.ExpiresAt.Round(0) // without the monotonic clock, which is not a token's
}

// Key stores a value of one type with the identity of a connection. Make one for
// each purpose, in a package variable; no key sees the value of another key:
//
//	var session = ingress.NewKey[Session]()
//
//	session.Set(&id, s)                // id is the Identity that Authenticate returns
//	s, ok := session.Get(&c.Identity)  // c is an ingress.Context
//	s, ok := session.Get(c.Identity)   // c is a router's Context
//	s, ok := session.Get(c.Identity()) // c is a router's Conn
//
// A Key may be used by several goroutines at once.
type Key[T any] struct {
	_ byte // keys of size 0 could have one address
}

// NewKey returns a new Key, which is different from all others of the same type.
func NewKey[T any]() *Key[T] { return new(Key[T]) }

// Set stores v with the connection, in place of an earlier value of this key.
func (k *Key[T]) Set(id *Identity, v T) {
	id.values().set(k, v)
}

// Get returns the connection's value, and whether one is set.
func (k *Key[T]) Get(id *Identity) (T, bool) {
	v, ok := id.values().get(k)
	t, _ := v.(T) // a nil that was set as an interface's value is of no type
	return t, ok
}

// values holds what keys stored for one connection. Connections hold few
// values, for which a list is smaller and faster than a map.
type values struct {
	mu   sync.Mutex
	list []entry
}

type entry struct{ key, value any }

func (v *values) set(key, value any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.list {
		if v.list[i].key == key {
			v.list[i].value = value
			return
		}
	}
	v.list = append(v.list, entry{key, value})
}

// all returns a copy of the list.
func (v *values) all() []entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.list)
}

func (v *values) get(key any) (any, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.list {
		if v.list[i].key == key {
			return v.list[i].value, true
		}
	}
	return nil, false
}
