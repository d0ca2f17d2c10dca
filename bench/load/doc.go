// Package load drives WebSocket servers hard enough to measure them without itself
// becoming the thing that is measured. One thread reads all connections through
// epoll, requests are masked once and sent many times, and replies are counted from
// their frame headers and first bytes; nothing is decoded.
//
// It speaks to this machine only: an address outside loopback is refused before a
// socket is opened. It needs Linux.
//
//	swarm, err := load.Open(ctx, load.Target{Addr: "127.0.0.1:9001", Path: "/ws"}, 50)
//	…
//	defer swarm.Close()
//	result, err := swarm.Echo(ctx, load.Plan{InFlight: 8, Duration: 2 * time.Second})
package load
