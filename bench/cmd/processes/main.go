// Processes compares server processes on one Redis with a hub that is written by hand with go-redis and
// coder/websocket: messages to all connections of all processes, and a message a second to each of many rooms. It
// writes the table to its section of RESULTS.md. Run it inside bench/:
//
//	go run ./cmd/processes                                                       # ten minutes, 5 GB
//	go run ./cmd/processes -rounds 1 -conns 500 -rooms 500 -messages 3 -out ""   # a first look
//
// Every server has a client process of its own, which connects from an address of its own and checks that each
// connection gets each message once and in order. cmd/node has the servers.
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/wskit/wskit/bench/command"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/turns"
)

type settings struct {
	rounds, servers, conns, rooms int
	all, messages                 int
	pause, every                  time.Duration
}

func main() {
	rounds := command.Count("rounds", 3, "how often both take their turn; the median counts")
	servers := command.Count("servers", 5, "server processes")
	conns := command.Count("conns", 15_000, "connections of each")
	rooms := command.Count("rooms", 10_000, "rooms, which the connections of all processes join in turn")
	all := command.Count("all", 10, "messages for all connections")
	pause := command.Span("pause", 3*time.Second, "time between two messages for all")
	messages := command.Count("messages", 20, "messages of each room, one a second")
	command.Main(func(ctx context.Context, folder string) (page.Section, error) {
		return measure(ctx, folder, settings{
			rounds: *rounds, servers: *servers, conns: *conns, rooms: *rooms,
			all: *all, pause: *pause, messages: *messages, every: time.Second,
		})
	})
}

// kinds are what takes turns: the servers that are compared, and a loop that only writes.
var kinds = []string{"wskit", "hub", bare}

const bare = "bare"

func measure(ctx context.Context, folder string, s settings) (section page.Section, err error) {
	var programs programs
	if programs.node, err = process.Build(ctx, folder, process.Cmd+"node"); err != nil {
		return section, err
	}
	if programs.load, err = process.Build(ctx, folder, process.Cmd+"load"); err != nil {
		return section, err
	}
	rounds := make([][]figures, len(kinds))
	for round := range s.rounds {
		for i, kind := range kinds {
			f, err := s.turn(ctx, programs, kind)
			if err != nil {
				return section, fmt.Errorf("%s: %w", kind, err)
			}
			log.Printf("round %d of %d, %s: %+v", round+1, s.rounds, kind, f)
			rounds[i] = append(rounds[i], f)
		}
	}
	return page.Section{
		Title: "Several processes", Command: "processes", Table: table(rounds),
		About: fmt.Sprintf("%d server processes with %d connections each, on one Redis; %d messages for all, one every %v; then one message a second "+
			"to each of %d rooms, %d times. The hub is written by hand with go-redis and coder/websocket. The floor is a loop that does nothing but "+
			"one write(2) of each message to each connection, without Redis. The median of %d rounds.",
			s.servers, s.conns, s.all, s.pause, s.rooms, s.messages, s.rounds),
		Notes: "CPU is that of the server processes, user and system, for a message that a connection gets, publishing included. Servers, clients and " +
			"Redis share the cores of the machine, so the times are mostly the queue for them.",
	}, nil
}

func table(kindRounds [][]figures) [][]string {
	servers, floor := kindRounds[:2], kindRounds[2]
	head := page.CompareHead("figure", kinds[1:2])
	lines := [][]string{slices.Insert(head, 3, "floor", "floor ÷ hub")}
	row := func(title string, target float64, ofFloor bool, of func(figures) float64) {
		cells := turns.Compare(servers, page.Compared{Title: title, Target: target}, of)
		value, ratio := "", ""
		if ofFloor {
			compared := turns.Compare([][]figures{floor, servers[1]}, page.Compared{}, of)
			value, ratio = compared[1], compared[3]
		}
		lines = append(lines, slices.Insert(cells, 3, value, ratio))
	}
	row("to all: CPU of a delivery (µs)", 0.5, true, func(f figures) float64 { return f.all.cpu })
	row("to all: the part of it outside of system calls (µs)", 0, true, func(f figures) float64 { return f.all.user })
	row("to all: time until the last connection has it (ms)", 0, true, func(f figures) float64 { return f.all.last })
	row("to all: deliveries, p99 (ms)", 0, true, func(f figures) float64 { return f.all.p99 })
	row("rooms: CPU of a delivery (µs)", 0.5, true, func(f figures) float64 { return f.rooms.cpu })
	row("rooms: the part of it outside of system calls (µs)", 0, true, func(f figures) float64 { return f.rooms.user })
	row("rooms: deliveries, p99 (ms)", 0, true, func(f figures) float64 { return f.rooms.p99 })
	row("rooms: CPU of Redis for a published message (µs)", 0, false, func(f figures) float64 { return f.rooms.redis })
	row("memory of the servers, RSS (MB)", 0, false, func(f figures) float64 { return f.memory })

	missing := []string{"messages that a connection did not get, in all rounds"}
	for _, rounds := range kindRounds {
		n := 0
		for _, f := range rounds {
			n += f.all.missing + f.rooms.missing
		}
		missing = append(missing, fmt.Sprint(n))
	}
	return append(lines, append(missing, "", "", "0", page.Met(missing[1] == "0")))
}
