// Package faulttest runs servers as processes of their own on a real Redis, breaks what
// they stand on while clients use them, and checks what users are promised:
//
//   - a request gets at most one terminal answer, and exactly one unless its connection
//     broke;
//   - a request that was acknowledged was handled, and none is handled twice, over
//     crashes and deploys; a server that shuts down answers what it has handled;
//   - FailClosed admits nothing while Redis is away, and never more than its policy;
//     FailLocal admits one policy's worth per server more;
//   - messages of one sender reach a subscriber in order, and once at most;
//   - 15 s after a server was killed its members are gone from presence, and those who
//     have been there for as long are seen.
//
// A [System] is servers, Redis and clients; a [Nemesis] breaks something in it; a
// [Recorder] makes a [History] of it, and [History.Check] finds what was broken. Tests of
// other promises add types of requests to the servers, and rules to the check.
package faulttest
