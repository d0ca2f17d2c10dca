// Package faulttest runs servers as separate processes on a real Redis, injects faults into
// them, Redis and the network while clients use them, and checks these guarantees:
//
//   - a request gets at most one terminal answer, and exactly one unless its connection
//     broke;
//   - an acknowledged request was handled, and none is handled twice, also across
//     crashes and deploys; a server that shuts down answers all requests it has handled;
//   - FailClosed admits nothing while Redis is unavailable, and never more than its policy;
//     FailLocal admits at most its policy once more per server;
//   - messages of one sender reach a subscriber in order, and at most once;
//   - 15 s after a server was killed its members are gone from presence, and members that
//     have been present for that long are listed;
//   - a client of topics with history gets each message once and in order, over connections
//     that it resumes, or a reset with a reason.
//
// A [System] is servers, Redis and clients; a [Nemesis] injects a fault into it; a
// [Recorder] records a [History], and [History.Check] finds violations. Tests of other
// guarantees add types of requests to the servers, and rules to the check.
//
// For topics with history there are others: a [Delivery], and a [DeliveryNemesis]. What its
// clients observe is checked by package deliverytest.
//
// go test, and so make test, inflicts a few faults, drawn at random. make faults inflicts all kinds for minutes, make
// delivery a thousand of those for topics with history; -faults.for=1ns and -delivery.faults=1 inflict each kind once.
package faulttest
