package router

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// AddressingOptions have connections addressed by their user, by their id and all together:
// [Router.User], [Router.Connection] and [Router.Everybody].
type AddressingOptions struct {
	// Enabled switches addressing on. It costs about 400 bytes for each connection.
	//
	// Default: off; the methods of a Target fail.
	Enabled bool

	// Timeout is the longest that Count, List and Close wait, and that a connection waits at
	// its opening until it can be addressed.
	//
	// Default: 5 s.
	Timeout time.Duration
}

func (o AddressingOptions) withDefaults() (AddressingOptions, error) {
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	if o.Timeout < 0 {
		return o, fmt.Errorf("router: Options.Addressing.Timeout is %v; it must be positive (0 for 5s)", o.Timeout)
	}
	return o, nil
}

// reservedTopics is how the names of topics begin that are not the application's.
const reservedTopics = "$ws:"

// Each connection that can be addressed is a member of the topic of all, and of that of its user
// if it has one.
const topicEverybody = reservedTopics + "everybody"

// userTopic hashes the user: names may be of any length, and are not for others to see.
func userTopic(tenant, user string) string {
	b := binary.AppendUvarint(nil, uint64(len(tenant)))
	sum := sha256.Sum256(append(append(b, tenant...), user...))
	return reservedTopics + "user:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// addressTopics returns the topics that a connection is a member of for its addresses.
func addressTopics(id *ingress.Identity) []string {
	if id.User == "" {
		return []string{topicEverybody}
	}
	return []string{topicEverybody, userTopic(id.Tenant, id.User)}
}

// directory finds the connections of this process that can be addressed. The zero directory has
// none.
type directory struct {
	mu    sync.RWMutex
	conns map[string]*Conn // by id; nil: addressing is off
}

func (d *directory) find(id string) *Conn {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.conns[id]
}

func (d *directory) add(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[c.id] = c
}

func (d *directory) remove(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c.id)
}

// makeAddressable returns when the connection can be addressed.
func (c *Conn) makeAddressable() error {
	r := c.router
	if !r.opts.Addressing.Enabled {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.opts.Addressing.Timeout)
	defer cancel()
	r.directory.add(c)
	for _, topic := range addressTopics(c.Identity()) {
		if err := c.enter(ctx, topic); err != nil {
			return errors.Unavailable.Wrap(err, "the connection cannot be addressed").WithRetryAfter(addressRetry)
		}
	}
	if c.ended() {
		r.directory.remove(c)
		return ErrClosed
	}
	return nil
}

// addressRetry is when a client comes back whose connection could not be addressed.
const addressRetry = time.Second

// newID makes the id of a connection.
func (r *Router) newID() string { return rand.Text() }

func isReservedTopic(name string) bool { return strings.HasPrefix(name, reservedTopics) }
