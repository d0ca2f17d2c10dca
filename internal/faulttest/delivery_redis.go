package faulttest

import (
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/internal/redistest"
)

// DeliveryRedis is a kind of Redis, or several.
type DeliveryRedis uint8

const (
	// Durable is a server that keeps what it has acknowledged when it is killed.
	Durable DeliveryRedis = 1 << iota
	// Forgetful is a server that is empty when it is started again.
	Forgetful
	// WithSentinel is a server and a replica that are monitored by a Sentinel.
	WithSentinel
	// InCluster is a cluster in which one node has a replica.
	InCluster

	oneServer = Durable | Forgetful
	anyRedis  = oneServer | WithSentinel | InCluster
)

// DeliveryRedises are all kinds.
var DeliveryRedises = []DeliveryRedis{Durable, Forgetful, WithSentinel, InCluster}

func (k DeliveryRedis) String() string {
	switch k {
	case Durable:
		return "durable"
	case Forgetful:
		return "forgetful"
	case WithSentinel:
		return "sentinel"
	case InCluster:
		return "cluster"
	}
	return fmt.Sprintf("DeliveryRedis(%d)", uint8(k))
}

// deliveryRedis is the Redis of a system.
type deliveryRedis struct {
	t        testing.TB
	kind     DeliveryRedis
	one      *redistest.Server   // of a single server
	ways     []*redistest.Proxy  // to it, of each server
	sentinel *redistest.Sentinel // its Master is the present one
	cluster  *redistest.Cluster  // its Nodes are the present masters
	replica  *redistest.Server   // of the cluster
}

func (r *deliveryRedis) start(t testing.TB, kind DeliveryRedis) {
	t.Helper()
	r.t, r.kind = t, kind
	switch kind {
	case Durable:
		r.one = redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	case Forgetful:
		r.one = redistest.Start(t)
	case WithSentinel:
		r.sentinel = redistest.StartSentinel(t)
	case InCluster:
		r.cluster = redistest.StartCluster(t, 3)
		r.replica = r.cluster.AddReplica(r.cluster.Owner(r.slot(roomTopic)))
		for _, s := range append([]*redistest.Server{r.replica}, r.cluster.Nodes...) {
			s.Do("CONFIG", "SET", "cluster-replica-no-failover", "yes", "cluster-node-timeout", "600000")
		}
	}
}

// deliveryKey is the key of a topic's log.
func deliveryKey(topic string) string { return "wskit:log:{" + topic + "}" }

// slot is the slot of a topic's log.
func (r *deliveryRedis) slot(topic string) int {
	r.t.Helper()
	slot, _ := r.cluster.Nodes[0].Do("CLUSTER", "KEYSLOT", deliveryKey(topic)).(int64)
	return int(slot)
}

// way returns an address for another server.
func (r *deliveryRedis) way(t testing.TB) string {
	switch r.kind {
	case WithSentinel:
		return "redis://" + r.sentinel.Addr + "?master_name=" + r.sentinel.Name
	case InCluster:
		return "redis://" + strings.Join(r.cluster.Addrs(), ",")
	}
	way := redistest.StartProxy(t, r.one.Addr)
	r.ways = append(r.ways, way)
	return "redis://" + way.Addr
}

// client returns a client that finds the present masters.
func (r *deliveryRedis) client() goredis.UniversalClient {
	switch r.kind {
	case WithSentinel:
		return goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: r.sentinel.Name, SentinelAddrs: []string{r.sentinel.Addr}})
	case InCluster:
		return r.cluster.Client()
	}
	return r.one.Client()
}

// masters are the servers to which is written.
func (r *deliveryRedis) masters() []*redistest.Server {
	switch r.kind {
	case WithSentinel:
		return []*redistest.Server{r.sentinel.Master}
	case InCluster:
		return r.cluster.Nodes
	}
	return []*redistest.Server{r.one}
}

// do runs a command at all masters.
func (r *deliveryRedis) do(args ...any) {
	r.t.Helper()
	for _, s := range r.masters() {
		s.Do(args...)
	}
}
