package redis

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/wskit/wskit/errors"
)

// BrokerOptions configure a [Broker]. The zero value works.
type BrokerOptions struct {
	// Prefix begins the names of the Broker's channels, so that several
	// applications may share a Redis. Brokers with the same prefix share their
	// topics. Letters, digits, '.', '_', '-' and '/',
	// 64 at most.
	//
	// Default: "wskit".
	Prefix string

	// Timeout is the longest that Publish and Subscribe wait for Redis. What is published has
	// half of it for its own round trip. While Redis is known not to answer, Publish
	// fails at once.
	//
	// Default: 2 s.
	Timeout time.Duration

	// HealthTimeout is how long a connection with subscriptions may deliver nothing before it is
	// replaced. The Broker sends itself four messages within it, so that a working connection
	// always delivers something. At least 100 ms.
	//
	// Default: 5 s.
	HealthTimeout time.Duration

	// MaxBuffered is how many bytes may wait for one subscription, which counts
	// 128 more for each message. A message that does not fit is dropped, unless
	// nothing else waits; a message with Lost is in its place.
	//
	// Default: 4 MiB.
	MaxBuffered int

	// MaxFrame is the size in bytes of the largest frame to be published, or
	// accepted from others.
	//
	// Default: 16 MiB.
	MaxFrame int

	// Keys authenticate messages (HMAC-SHA256 over channel and message), so that a client of
	// Redis that may publish cannot forge them. All processes have the same. The first signs
	// and all are accepted: to change a key, first add the new one at the end everywhere,
	// then put it first, then leave out the old one. At least 16 bytes each, at most 8 keys.
	// What is not signed is dropped and counted in BrokerStats.Ignored, and Brokers without
	// keys drop what is signed. A client that can read the channels as well can repeat a
	// message: docs/security.md.
	//
	// Default: none; messages are not authenticated.
	Keys [][]byte

	// Logger gets a line, with the cause, when subscriptions are lost, publishing fails or logs
	// cannot be read, and another when they are back or it works again.
	//
	// Default: slog.Default().
	Logger *slog.Logger

	// OnOutage is called at the same times, for the components "subscription", "publish" and "log". It is called by one
	// goroutine, never under a lock, so it may block; until it returns, only the latest change is kept. Its panics are
	// logged.
	//
	// Default: none.
	OnOutage func(errors.Outage)
}

func (o BrokerOptions) withDefaults() (BrokerOptions, error) {
	o.Prefix = cmp.Or(o.Prefix, "wskit")
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.HealthTimeout = cmp.Or(o.HealthTimeout, 5*time.Second)
	o.MaxBuffered = cmp.Or(o.MaxBuffered, 4<<20)
	o.MaxFrame = cmp.Or(o.MaxFrame, 16<<20)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Timeout < 0:
		return o, fmt.Errorf("redis: BrokerOptions.Timeout is %v; it must be positive (0 for 2s)", o.Timeout)
	case o.HealthTimeout < 100*time.Millisecond:
		return o, fmt.Errorf("redis: BrokerOptions.HealthTimeout is %v; it must be at least 100ms (0 for 5s)", o.HealthTimeout)
	case o.MaxBuffered < 0:
		return o, fmt.Errorf("redis: BrokerOptions.MaxBuffered is %d; it must be positive (0 for 4 MiB)", o.MaxBuffered)
	case o.MaxFrame < 0:
		return o, fmt.Errorf("redis: BrokerOptions.MaxFrame is %d; it must be positive (0 for 16 MiB)", o.MaxFrame)
	}
	if len(o.Keys) > 8 {
		return o, fmt.Errorf("redis: BrokerOptions.Keys are %d; at most 8 are allowed", len(o.Keys))
	}
	o.Keys = slices.Clone(o.Keys)
	for i, key := range o.Keys {
		if len(key) < 16 {
			return o, fmt.Errorf("redis: BrokerOptions.Keys[%d] has %d bytes; use at least 16 random bytes", i, len(key))
		}
		o.Keys[i] = bytes.Clone(key)
	}
	return o, checkPrefix("BrokerOptions", o.Prefix)
}

// maxTopicLength bounds the name of a topic, in bytes.
const maxTopicLength = 1024

func checkTopic(name string) error {
	if name == "" || len(name) > maxTopicLength {
		return fmt.Errorf("redis: a topic's name has 1 to %d bytes, this one %d", maxTopicLength, len(name))
	}
	return nil
}

func checkPrefix(options, prefix string) error {
	if len(prefix) > 64 || strings.ContainsFunc(prefix, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_./", r)
	}) {
		return fmt.Errorf("redis: %s.Prefix is %q; use 1 to 64 letters, digits, '.', '_', '-' and '/'", options, prefix)
	}
	return nil
}

// key is the name of a channel or a key of Redis that belongs to a topic:
// prefix:kind:{topic}, in which the topic's own braces are escaped. So all names of
// a topic are in one hash slot of a cluster, and names of different topics differ.
func key(prefix, kind, topic string) string {
	return prefix + ":" + kind + ":{" + braces.Replace(topic) + "}"
}

var braces = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
