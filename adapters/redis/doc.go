// Package redis keeps limits and topics on Redis, so that several processes share
// them.
//
//	store, err := redis.Open(ctx, "redis://localhost:6379")
//	…
//	defer store.Close()
//	messages := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second},
//		limit.Options{Name: "messages"})
//
// Redis 6.2 or later, or what speaks its protocol and runs Lua: alone, with
// Sentinels, as a cluster, or several servers under a Ring of go-redis.
//
// # A decision
//
// Every decision is one script, run by the server that has the key, by that
// server's clock and in integers that Lua keeps exactly: it is the decision that
// package limit makes in memory, in every field. The parameters of the policy
// travel with the call, so a changed policy needs no migration. A denial writes
// nothing.
//
// Calls that are made at the same time share a round trip, and calls for one key a
// single write. A call that comes alone goes out at once. What is known to be
// denied is denied without asking (package limit/denial), so a flood costs Redis
// nothing.
//
// # When Redis fails
//
// A call ends when its context does. It is never sent a second time unless the
// server said that it did not run it: because it had forgotten the script, or
// because the slot of the key was moving. After any other error it is unknown
// whether the cost was charged, and it stays charged or not. What then answers is
// the limiter's business ([limit.Options.OnFailure]). While the last round trip
// failed, nothing is answered from memory, so that the limiter sees when Redis is
// back.
//
// A server that comes back empty has forgotten what was used, and so has a replica
// that was promoted before it heard of the last decisions: each costs at most one
// policy's worth. Asynchronous replication is enough; waiting for replicas would
// cost every decision a round trip to bound what a failover may admit.
//
// # Operating Redis for limits
//
// A key is that of the limiter, prefix:name:part:part…, with '~' and the shape of
// its state behind it. It holds no secret (see [limit.Key]). Its value is an
// instant or a few numbers in decimal; it expires at the millisecond in which it
// says no more than no key would. A user under a token bucket takes about 160 bytes
// while something is used, and none after.
//
// Give limits a server, or a cluster, of their own: then persistence can be off
// (save "", appendonly no), for what is lost is one policy's worth, and
// maxmemory-policy volatile-ttl gives up first what would have run out first. With
// noeviction a full server refuses new keys, and the limiter's failure policy
// decides.
//
// The rights needed are those of the script and of its commands:
//
//	ACL SETUSER limits on >password ~wskit:* resetchannels -@all +evalsha +eval +get +mget +set +del +time +info
//
// In a cluster +cluster|slots and +cluster|shards are needed as well. In a cluster
// a script may touch keys of one slot only: one server's calls still share their
// round trips, each slot in a script of its own. [Store.TakeAll] needs keys of one
// slot, and says errors.ErrUnsupported otherwise. One server makes some hundreds of
// thousands of decisions a second; a cluster is for more than that, or for more
// keys than one has memory for.
package redis
