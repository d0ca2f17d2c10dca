package router

// Locks are taken in this order, from top to bottom; one that is further down is never
// held while one above it is taken. None is held while the network, a client, a handler, a
// hook, a broker or a store is waited for. User code runs under one of them only where
// middleware is composed, once, under Router.mu.
//
//	Watchdog.looking  a look of the watchdog                       per router; no other goroutine takes it
//	turn.Turn.mu      messages that are open or wait               per connection
//	Context.mu        whether a message is answered, cancelled     per message
//	Execution.mu      whether a claim is to be renewed             per message with an idempotency key
//	View.sending      what is sent of a topic's presence           per topic that is watched
//	View.mu           a topic's members, and what was sent         per topic that is watched
//	Feed.mu           limits that a client follows                 per connection that follows them
//	hub.batch.mu      connections that are to be flushed           per connection that publishes,
//	                                                               and per subscription
//	hub.topic.mu      a topic's members, its subscription, and the per topic
//	                  position of a topic with history
//	logcache.Cache.mu what clients that resume read of a log       per topic with history
//	wire.Outbox.mu    frames that are queued                       per connection
//	Peer.mu           the list of topics                           per connection
//	connContext.mu    the context                                  per connection whose context is used
//	pending.Table.mu  questions that are open                      per connection with questions
//	hub.table.mu      the table of topics                          per router
//	directory.mu      the connections by their ids                 per router with addressing
//	linger.Members.mu members whose connections were lost          per router
//	Rights.mu         the revocations                              per router
//	Touch.mu          whether their log is being looked at         per router with addressing
//	Cluster.mu        the other processes, queries to them         per router with addressing
//	Views.mu          the table of topics that are watched         per router
//	hub.gaps.mu       topics of which messages may be lost         per router
//	hub.ends.mu       the logs that are followed                   per router
//	Wheel.mu          when connections are checked                 per router
//	fairness.Queue.mu what waits for a turn                        per router
//	session.List.mu   the list of connections                      per router
//	Router.mu         registrations                                per router
//	InFlight.mu       what Shutdown waits for                      per router, two
//	serial.Calls.mu   calls of OnLimitExceeded, of OnRefused       per router, two
//	origin.refused.mu what has been logged                         per router
//	traces.mu         the connections whose messages are recorded  per router
//
// Pairs that really are held together:
//
//	Turn.mu > Context.mu                                 a message becomes open
//	Context.mu > Outbox.mu                               Context.Progress
//	Turn.mu > InFlight.mu                                a message becomes open
//	batch.mu > topic.mu > Outbox.mu                      a message is delivered
//	batch.mu > table.mu                                  likewise, without a broker
//	batch.mu > gaps.mu                                   a loss is reported in its place
//	topic.mu, Context.mu > traces.mu                     a message of a connection that is traced is sent
//	topic.mu > Outbox.mu                                 a member of a topic with history joins
//	topic.mu > logcache.Cache.mu                         a topic with history is reset
//	batch.mu > Touch.mu                                  a message is delivered by a process that was away
//	topic.mu > table.mu                                  a subscription is begun
//	View.sending > View.mu                               changes are collected
//	View.sending > topic.mu > Outbox.mu                  changes are sent
//	Feed.mu > Outbox.mu                                  what is left of limits is sent
//	Peer.mu > table.mu                                   a member takes its place
//	Outbox.mu > Wheel.mu                                 a client turns out too slow
//	Outbox.mu > pending.Table.mu                         likewise
//
// No lock guards the state of a connection (life.Life), how it ended (Conn.info), the state
// of its handlers (turn.Turn) and the times that the wheel looks at: they are atomic. The
// wheel holds no lock while it checks a connection, nor does the watchdog one that another
// goroutine takes while it looks at one.
