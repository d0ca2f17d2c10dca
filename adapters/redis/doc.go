// Package redis keeps limits, topics, presence and the answers of idempotent messages on Redis, so
// that several processes share them.
//
//	b, err := redis.Open(ctx, "redis://localhost:6379", redis.Options{Prefix: "chat"})
//	…
//	r := router.New(router.Options{Backend: b})
//	messages := limit.New(b.Limits, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second},
//		limit.Options{Name: "messages"})
//	…
//	err = r.Serve(ctx, server) // closes b
//
// Redis 6.2 or later on a 64-bit machine, or a server with its protocol and Lua: alone, with
// Sentinels, as a cluster, or several servers under a Ring of go-redis.
//
// # A decision
//
// Every decision is one script, run by the server that has the key, by that server's clock and in
// integers that Lua keeps exactly: it is the decision that package limit makes in memory, in every
// field. The parameters of the policy travel with the call, so a changed policy needs no migration.
// A denial writes nothing.
//
// Calls that are made at the same time share a round trip, and calls for one key a single write. A
// call that comes alone goes out at once. What is known to be denied is denied without asking
// (package internal/denialcache), so a flood costs Redis nothing.
//
// # When Redis fails
//
// A call ends when its context does. It is never sent a second time unless the server said that it
// did not run it: because it had lost the script, or because the slot of the key was moving.
// After any other error it is unknown whether the cost was charged, and it stays charged or not.
// What is then decided is up to the limiter ([limit.Options.OnFailure]). While the last round trip
// failed, nothing is answered from memory, so that the limiter finds out when Redis is back.
//
// The timeout of a limiter ([limit.Options.Timeout], 100 ms) is for each round trip from the
// instant at which it is sent. A decision may take longer: it may wait for the round trip before
// it, for a connection to be made, and for the script to be sent whole. While Redis answers, that
// is at most ten timeouts for a connection, once. When Redis stops answering, what is under way
// fails after one timeout and what waits for it with it, so a decision takes two at most, or ten
// where Redis fails while a connection is made; after that nothing waits longer than one until
// Redis answers again.
//
// The time for which this process itself waits for a CPU does not count: an answer that has arrived
// when its timeout is over is an answer. Stats.LateReads counts these. When there are many, the
// process needs more CPU. Only the ten timeouts for a connection include it.
//
// So with the default a steady round trip of up to 80 ms is supported. For a Redis that is farther
// away, set a timeout that is a quarter longer than its round trip. Stats.RoundTrip says how long
// it is, and Stats.TimedOut of a limiter that the timeout is too short for it. At a round trip of r
// seconds a process makes at most StoreOptions.Trips · 128 / r decisions a second at each server: 3,200
// at 80 ms, unless there are more trips.
//
// In a cluster, the client asks which node has which slots as soon as a node does not answer, and
// several times a second until it does, so that decisions are Redis's again about a second after
// the cluster has failed over.
//
// A server that comes back empty has lost what was used, and so has a replica that was promoted
// before the last decisions reached it: each costs at most one policy's worth. Asynchronous
// replication is enough; waiting for replicas would cost every decision a round trip to bound what
// a failover may admit.
//
// # Memory
//
// A limit's key is that of the limiter, prefix:name:part:part…, with '~' and the shape of its state
// behind it; its value is an instant or a few numbers in decimal. It expires a minute
// (limit.ClockTolerance) after the millisecond from which it limits nothing any more: the clock of
// a server may be set back, and a key that is gone by then would grant a whole limit again. The expiry is rounded up to
// ten seconds, so that most charges need not change it, which saves a fifth of their CPU time in Redis. So memory
// depends on the users of the last minute, and of the time before it in which a full limit comes back, not on all
// users. Of a bucket of 10 that fills in 1 s there are 61 to 71 keys where one new user comes each second, of a quota
// per day one for each user of the day. Leases that are over are kept for the same minute. Bytes of Redis 7.0,
// for keys of 40:
//
//	TokenBucket, Pacer            150 per key
//	FixedWindow, SlidingWindow    180 per key
//	SlidingLog                    270 per key with 5 admissions in it
//	a lease                       200 alone under its key, 130 among many
//	a member of a Presence        520 alone in a topic, 50 to 90 among others of its
//	                              process; and its Data
//	an idempotency key            500, and its answer
//	a log                         800
//	a message in a log            160, its frame, key and except; with Keys 32 more
//	an id of Append               180, for two minutes and until the next Append
//
// A user with a bucket for each of three message types and one connection behind a Gate takes about
// 1 kB: a million of them, all busy, a gigabyte. A Broker keeps nothing in Redis but logs. No key
// holds a secret (see [limit.Key]); the Data of a member is the application's.
//
// # Persistence and eviction
//
// Give limits a server, or a cluster, of their own: then persistence can be off (save "",
// appendonly no), for what is lost is one policy's worth.
//
// Set maxmemory, and maxmemory-policy noeviction. A full server then refuses to write: nothing is
// lost, a limiter's failure policy decides what would have been admitted, and it shows, as
// Errors["OOM"] of Store.Stats, as FailedOver of limit.Stats, in the log and to OnOutage.
//
// Under any other policy a full server deletes keys that still count, and what they limited is
// admitted again. volatile-ttl begins with the keys that expire first, which are the limits if
// other keys live longer; lru and lfu begin with keys that look idle, which are those of users that
// are refused without asking. No decision shows it. So a Store reads from each of its servers,
// about every 10 s, how many keys it has evicted: Evicted of its Stats counts them, and the first
// are logged.
//
// Redis disconnects a Broker that does not read what is published as fast as it comes, at
// client-output-buffer-limit pubsub (32 MB, or 8 MB for a minute). The Broker connects again and
// counts it in BrokerStats.Lost.
//
// # Logs
//
// What a nil error of Append means is what Redis is configured to. By default a server
// writes to disk now and then, and sends to its replicas a moment later. So when it crashes, or a
// replica takes over, the messages of the last moments can be missing: a part of a second with
// appendonly yes (appendfsync everysec), all since the last snapshot with save alone, and
// everything with neither. With appendfsync always, a server alone loses nothing; a failover still
// can. No message is lost in silence: what is missing at the end of a log is found by the tags of
// the messages (pubsub.LossRewound), and a log that is gone by its epoch (pubsub.LossEpoch).
//
// Logs need maxmemory-policy noeviction, as limits do: under any other policy a full server deletes
// logs, each as a whole. BrokerStats.Evicted counts them as Stats.Evicted does.
// lazyfree-lazy-expire yes keeps a server from stopping for a moment when a log of 100,000 messages
// or more ends.
//
// The age of messages is by the server's clock. When that is set forward by more than History.Age,
// all messages are too old; by more than twice History.Age and a minute, logs end: readers get
// LossTrimmed or LossEpoch. When it is set back, messages are kept for longer.
//
// A log is one hash, so that a cluster moves it as a whole. It is read and appended to while it is moved.
// Messages of a process that are appended to it at the same time are stored together, at most 64
// KiB or one message, and stay in the memory of the server until none of them is kept. Those that
// are not kept any more are not read.
//
// # Rights
//
// What follows is all that is needed, in this order, by a [Store], also of [NewPrefetch]; by
// leases, which are those of [limit.ConcurrencyLimit] and of a gate.Gate; by a [Broker]; by
// the logs of a Broker; by a [Presence]; by what [NewIdempotency] returns; and in a cluster by all of them:
//
//	ACL SETUSER limits on >password ~wskit:* resetchannels -@all +evalsha +eval +get +mget +set +del +time +info
//	ACL SETUSER limits +zadd +zrem +zcount +zscore +zrange +zremrangebyrank +pexpireat
//	ACL SETUSER limits &wskit:* +publish +subscribe +unsubscribe +ping
//	ACL SETUSER limits +evalsha +eval +time +hget +hmget +hset +hdel +pexpire +del +publish +info
//	ACL SETUSER limits +smembers +srem +sadd +exists +hrandfield +hget +hmget +hset +hdel +hincrby +hlen +pexpire +publish
//	ACL SETUSER limits +hmget +hset +pexpire +pttl +zadd +zrem +zcard +zremrangebyscore
//	ACL SETUSER limits +cluster|slots +cluster|shards +spublish +ssubscribe +sunsubscribe
//
// A Presence that is watched also needs the rights of a Broker. With another prefix (limit.Options,
// BrokerOptions, PresenceOptions, IdempotencyOptions), name that.
//
// # Clusters
//
// One server makes some hundreds of thousands of decisions a second (bench/RESULTS-redis.md); a
// cluster is for more than that, or for more keys than one has memory for. The keys of limits
// spread over its slots by themselves; what belongs to one topic is in one slot, so a topic is as
// fast as one node. A Broker needs Redis 7, for sharded pub/sub.
//
// A script may touch keys of one slot only. One server's calls still share their round trips, each
// slot in a script of its own, but TakeAll says errors.ErrUnsupported unless all its keys
// are in one slot, and keys of a limiter are not. So with a cluster, do not charge several limits
// together (limit.TakeAll, ratelimit.NewAll): charge them one after the other, the narrowest first,
// or put the policies of one subject into a [limit.All], which is one key.
package redis
