package figures

// All metrics. observe/metrics.md has names, labels and these texts; tests compare them.
var (
	activeConnections  = gauge("server.active_connections", "{connection}", "Connections that are open.")
	connections        = counter("server.connections", "{connection}", "Connections that were accepted.")
	connectionsClosed  = counter("server.connections.closed", "{connection}", "Connections that have ended, by close code and the side that began the closing.", "code", "side")
	connectionDuration = duration("server.connection.duration", "How long connections lasted that have ended.")
	handshakesRefused  = counter("server.handshakes.refused", "{handshake}", "Handshakes that were not accepted, by reason.", "reason")

	ioRead             = counter("server.io.read", "By", "Bytes that connections have read, without TLS.")
	ioWritten          = counter("server.io.written", "By", "Bytes that connections have written, without TLS.")
	framesWritten      = counter("server.frames.written", "{frame}", "Frames that connections have written.")
	framesDropped      = counter("server.frames.dropped", "{frame}", "Frames that were queued and not sent.")
	backlogConnections = gauge("server.backlog.connections", "{connection}", "Connections with output that the client does not take at once.")
	backlogBytes       = gauge("server.backlog.size", "By", "Output that clients do not take at once.")
	slowConsumers      = counter("server.slow_consumers", "{connection}", "Connections closed because the client read too slowly.")

	messages          = counter("server.messages", "{message}", "Messages that came, by type and outcome.", "type", "outcome")
	MessageDuration   = duration("server.message.duration", "How long messages took that reached their handler, by type: limits, decoding, handler, reply.", "type")
	messageWait       = duration("server.message.wait", "How long messages waited for their turn.")
	messagesActive    = gauge("server.messages.active", "{message}", "Messages that are being handled or wait, but for those that take less than about 20 ms.")
	messagesRefused   = counter("server.messages.refused", "{message}", "Messages that were refused before their handler, by reason, but for those that a limit rejected.", "reason")
	rejections        = counter("server.rejections", "{message}", "Messages that a limit rejected, by limiter and kind.", "limiter", "kind")
	rejectionsDropped = counter("server.rejections.unanswered", "{message}", "Messages that a limit rejected without an answer.")

	overloaded = gauge("server.overloaded", "1", "1 while messages are refused because the process cannot keep up.")
	cpuWait    = gauge("server.cpu_wait", "s", "How long work waited for a CPU at least, in the last 100 ms; 0 without Options.Overload.")
	shed       = counter("server.shed", "{message}", "Messages and handshakes that were refused because the process could not keep up, by priority.", "priority")

	published       = counter("pubsub.published", "{message}", "Messages that were published here.")
	publishFailures = counter("pubsub.publish_failures", "{message}", "Messages that could not be published.")
	delivered       = counter("pubsub.deliveries", "{message}", "Messages of topics that were queued for subscribers here.")
	foreign         = counter("pubsub.foreign", "{message}", "Messages from the broker that were dropped because they are not from a router.")
	lost            = counter("pubsub.lost", "{report}", "Reports of the broker that messages of a topic may have been lost.")
	topics          = gauge("pubsub.topics", "{topic}", "Topics that have members here.")
	revoked         = counter("pubsub.revoked", "{membership}", "Memberships of topics that ended because the right was revoked.")
	logRecovered    = counter("history.recovered", "{message}", "Messages that were delivered only when the log had been read.")
	logReadFailures = counter("history.read_failures", "{read}", "Failures to read the log of a topic.")
	logBehind       = gauge("history.behind", "{message}", "Messages that the logs had at the last look and this process had not delivered.")
	logResets       = counter("history.resets", "{topic}", "Topics whose members got $ws:reset because this process could not deliver all, by reason.", "reason")
	resumes         = counter("history.resumes", "{topic}", "Topics that clients wanted to resume, by outcome.", "outcome")

	faults         = counter("server.faults", "{fault}", "Faults: errors without a code, and panics.")
	panics         = counter("server.panics", "{panic}", "Panics of handlers and hooks.")
	hooksMissed    = counter("server.hooks.missed", "{call}", "Calls of hooks that were left out because the hook was too slow.")
	answersIgnored = counter("server.answers.ignored", "{answer}", "Answers to questions that were not open.")

	limiterDecisions     = counter("limiter.decisions", "{decision}", "Decisions, by limiter and result. A shadowed denial is denied.", "limiter", "result")
	limiterImpossible    = counter("limiter.impossible", "{decision}", "Denials of a cost that can never fit.", "limiter")
	limiterShadowed      = counter("limiter.shadowed", "{decision}", "Denials that shadow mode let pass.", "limiter")
	limiterInvalid       = counter("limiter.invalid", "{call}", "Calls refused for their cost or key.", "limiter")
	limiterBarred        = counter("limiter.barred", "{message}", "Messages of clients on a deny list.", "limiter")
	limiterStoreFailures = counter("limiter.store_failures", "{call}", "Calls that the store answered with an error or not in time.", "limiter")
	limiterTimeouts      = counter("limiter.timeouts", "{call}", "Calls that the store did not answer in time.", "limiter")
	limiterFailedOver    = counter("limiter.failed_over", "{decision}", "Decisions that the failure policy made.", "limiter")
	limiterSkipped       = counter("limiter.skipped", "{decision}", "Decisions that were made without the store, because it had failed.", "limiter")
	limiterSwitches      = counter("limiter.switches", "{switch}", "How often the limiter stopped using its store.", "limiter")
	limiterDegraded      = gauge("limiter.degraded", "1", "1 while the limiter does not use its store.", "limiter")
	limiterStoreDuration = duration("limiter.store.duration", "How long calls of the store took.", "limiter")

	gateHandshakes = counter("gate.handshakes", "{handshake}", "Handshakes that came to the gate, by result.", "gate", "result")
	gateLeases     = gauge("gate.leases", "{lease}", "Leases that the gate renews.", "gate")

	storeCalls      = counter("store.calls", "{call}", "Calls that were sent.", "store")
	storeTrips      = counter("store.trips", "{trip}", "Round trips in which calls were sent.", "store")
	storeRemembered = counter("store.remembered", "{decision}", "Denials that were answered from memory.", "store")
	storeErrors     = counter("store.errors", "{call}", "Calls without an answer, by reason.", "store", "error")
	storeEvicted    = counter("store.evicted", "{key}", "Keys that the servers deleted for want of memory.", "store")
	storeRoundTrip  = gauge("store.round_trip", "s", "How long the last round trips took, on average.", "store")
	storeLate       = counter("store.late_reads", "{answer}", "Answers that were read late because this process waited for a CPU.", "store")
	storeKeys       = gauge("store.keys", "{key}", "Keys with a state of their own.", "store")
	storeOverflowed = counter("store.overflowed", "{decision}", "Decisions on a shared state because there are too many keys.", "store")
	storeLeases     = gauge("store.leases", "{lease}", "Leases in the store.", "store")

	brokerTopics   = gauge("broker.topics", "{topic}", "Topics with subscriptions here.", "broker")
	brokerMissing  = gauge("broker.missing", "{topic}", "Topics that the broker does not deliver at the moment.", "broker")
	brokerLost     = counter("broker.lost", "{topic}", "Topics that had to be subscribed to again.", "broker")
	brokerFailed   = counter("broker.failed", "{message}", "Messages that could not be published or appended.", "broker")
	brokerDropped  = counter("broker.dropped", "{message}", "Messages that did not fit the buffer of a subscription.", "broker")
	brokerIgnored  = counter("broker.ignored", "{message}", "Messages on the broker's channels that are not of a broker.", "broker")
	brokerEvicted  = counter("broker.evicted", "{key}", "Keys that the servers deleted for want of memory.", "broker")
	brokerLogs     = gauge("broker.logs", "{log}", "Logs in memory.", "broker")
	brokerLogBytes = gauge("broker.log.size", "By", "Size of the logs in memory.", "broker")
	brokerRemoved  = counter("broker.removed", "{message}", "Messages that were removed from logs in memory before their time.", "broker")

	presenceTopics   = gauge("presence.topics", "{topic}", "Topics with members here.", "presence")
	presenceMembers  = gauge("presence.members", "{member}", "Members here.", "presence")
	presenceFailed   = counter("presence.failed", "{write}", "Failures to write the presence.", "presence")
	presenceRepaired = counter("presence.repaired", "{topic}", "Topics that were written anew because the servers had lost them.", "presence")

	webhookEvents   = counter("webhook.events", "{event}", "Events for other services, by result.", "webhook", "result")
	webhookFailures = counter("webhook.failures", "{request}", "Requests that were not answered 2xx, and are repeated.", "webhook")
	webhookBehind   = gauge("webhook.behind", "s", "For how long a request of this process has been repeated.", "webhook")

	runsRunning   = gauge("run.running", "{run}", "Runs that go on here.", "runs")
	runsBegun     = counter("run.begun", "{run}", "Runs that were begun here, by type.", "runs", "type")
	runsRestarted = counter("run.restarted", "{run}", "Runs that were begun here again, by type.", "runs", "type")
	runsEnded     = counter("run.ended", "{run}", "Runs by type and end; each counts in one process.", "runs", "type", "state")
)

var all []*Metric

// All returns all metrics, in the order in which they are documented.
func All() []*Metric { return all }

func metric(name string, kind Kind, unit, help string, labels []string) *Metric {
	m := &Metric{Name: name, Kind: kind, Unit: unit, Help: help, Labels: labels}
	all = append(all, m)
	return m
}

func counter(name, unit, help string, labels ...string) *Metric {
	return metric(name, Counter, unit, help, labels)
}

func gauge(name, unit, help string, labels ...string) *Metric {
	return metric(name, Gauge, unit, help, labels)
}

func duration(name, help string, labels ...string) *Metric {
	return metric(name, Histogram, "s", help, labels)
}
