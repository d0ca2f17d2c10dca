package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wskit/wskit/bench/load"
)

// storm is the process of the clients that resume. It prints a line when they are connected, waits for a line,
// has them resume, and prints the result.
type storm struct {
	addr    string
	clients int
	plan    load.ResumePlan
}

func (s storm) run(ctx context.Context) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return err
	}
	swarm, err := load.Open(ctx, load.Target{Addr: s.addr, Path: "/ws"}, s.clients)
	if err != nil {
		return err
	}
	defer swarm.Close()
	fmt.Println("connected")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	s.plan.Topic = hot
	result, err := swarm.Resume(ctx, s.plan)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
