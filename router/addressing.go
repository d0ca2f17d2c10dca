package router

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/internal/cluster"
	"github.com/wskit/wskit/router/internal/hub"
)

// AddressingOptions are for [Router.User], [Router.Connection] and [Router.AllConnections]: sending
// to the connections of a user, to one or to all, and counting, listing and closing them.
type AddressingOptions struct {
	// Enabled lets other processes that share the Backend address the connections of this one. All of them need it. It
	// costs about 400 bytes for each connection, and a subscription of the broker for each user.
	//
	// Default: off. Without a broker, or with that of package memory, the connections of this router can be addressed
	// from the first use of a Target on, which takes about 2 µs for each connection that is open. With another broker
	// the methods of a Target fail.
	Enabled bool

	// Timeout bounds how long the methods of a Target but Send wait for other processes, and how long a
	// connection waits at its opening until it can be addressed. If it cannot, because the broker
	// fails, it is closed with 1013: an open connection can always be addressed. While the broker
	// fails, a user with other connections in this process can open more; all of them can be
	// addressed again when the broker works.
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

// Each connection that can be addressed is a member of the topic of all, and of that of its user
// if it has one.
const topicAll = hub.ReservedTopics + "all"

// userTopic hashes the user: names may be of any length, and are not for others to see.
func userTopic(tenant, user string) string {
	b := binary.AppendUvarint(nil, uint64(len(tenant)))
	sum := sha256.Sum256(append(append(b, tenant...), user...))
	return hub.ReservedTopics + "user:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// addressTopics returns the topics that a connection is a member of for its addresses.
func addressTopics(id *ingress.Identity) []string {
	if id.User == "" {
		return []string{topicAll}
	}
	return []string{topicAll, userTopic(id.Tenant, id.User)}
}

// directory finds the connections of this process that can be addressed. The zero directory has
// none.
type directory struct {
	on    atomic.Bool // set by New, or by the first use of a Target
	first sync.Once   // of that

	mu    sync.RWMutex
	conns map[string]*Conn // by id
}

func (d *directory) find(id string) *Conn {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.conns[id]
}

func (d *directory) add(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[c.peer.ID] = c
}

func (d *directory) remove(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c.peer.ID)
}

// makeAddressable returns when the connection can be addressed.
func (c *Conn) makeAddressable() error {
	r := c.router
	if !r.directory.on.Load() { // whoever switches it on does so for all that are open
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.opts.Addressing.Timeout)
	defer cancel()
	if r.cluster != nil {
		if err := r.cluster.AwaitReady(ctx); err != nil {
			return unaddressable(err)
		}
		if err := r.rights.Await(ctx); err != nil {
			return unaddressable(err)
		}
	}
	return c.address(ctx)
}

// addressAll returns when the connections of a router that is alone can be addressed, and so can those that are opened
// from now on: such a connection is listed before it looks at on.
func (r *Router) addressAll() {
	r.directory.first.Do(func() {
		if r.directory.on.Swap(true) {
			return // since New
		}
		for _, c := range r.conns.All() {
			_ = c.address(r.ctx) // or it has ended
		}
	})
}

// address makes a connection one that is found by its id and its user. Twice is as once.
func (c *Conn) address(ctx context.Context) error {
	r := c.router
	r.directory.add(c)
	for _, topic := range addressTopics(c.Identity()) {
		if err := c.peer.Subscribe(ctx, topic, hub.Terms{}); err != nil {
			return unaddressable(err)
		}
	}
	if c.ended() {
		r.directory.remove(c)
		return ErrClosed
	}
	return nil
}

func unaddressable(err error) error {
	return errors.Unavailable.Wrap(err, "the connection cannot be addressed").WithRetryAfter(cluster.Retry)
}

// isAlone reports whether no other process can address the connections of a router with these options.
func (o *Options) isAlone() bool {
	return !o.Backend.Shared && staysInProcess(o.Backend.Broker)
}

func (r *Router) newCluster() *cluster.Cluster[ConnInfo] {
	var peeker envelope.Peeker
	broker, _ := r.opts.Backend.Broker.(pubsub.ReceiverCounter)
	all := cluster.New(cluster.Config[ConnInfo]{
		Broker: broker, Timeout: r.opts.Addressing.Timeout, ProcessTimeout: r.opts.Backend.ProcessTimeout,
		Stop: r.ctx, Topics: hub.ReservedTopics,
		Count: r.countLocal, List: r.listLocal, Close: r.closeLocal, Refuse: r.hub.Refuse,
		Subscribe: r.subscribeLocal, Unsubscribe: r.unsubscribeLocal, Revoke: r.rights.Carried, Ask: r.askLocal,
		Back: func() { r.hub.Touch.Lost() },
		Deliver: func(id string, m pubsub.Message) error {
			err := r.hub.Check(&peeker, m.Frame)
			if err == nil {
				r.sendToConnection(id, m)
			}
			return err
		},
	})
	r.hub.Touch = r.rights.NewTouch(r.ctx, all.IsWaitedFor, all.Renew)
	return all
}

// newID makes the id of a connection. With other processes, it begins with this one, for them to find it.
func (r *Router) newID() string {
	if r.cluster != nil {
		return r.cluster.NewID()
	}
	return rand.Text()
}
