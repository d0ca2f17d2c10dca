package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"github.com/wskit/wskit/bench/load"
)

// storm is the process of the clients that resume. It prints a line when they are connected, waits for a line,
// has them resume, and prints the result. From that line on it sends and reads when others leave it a CPU.
type storm struct {
	addr string
	plan load.ResumePlan
}

func (s storm) run(ctx context.Context, clients int) error {
	runtime.LockOSThread() // a thread has a priority of its own
	swarm, err := load.Open(ctx, load.Target{Addr: s.addr, Path: "/ws"}, clients)
	if err != nil {
		return err
	}
	defer swarm.Close()
	fmt.Println("connected")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := lowestPriority(); err != nil {
		return err
	}
	s.plan.Topic = hot
	result, err := swarm.Resume(ctx, s.plan)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
