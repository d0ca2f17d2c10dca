package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/wskit/wskit/bench/process"
)

// keepBusy is a process that keeps its CPUs from being idle: for each, a thread of the lowest priority runs that does
// nothing. It prints a line when they run, and ends with its input.
func keepBusy(context.Context) error {
	threads := runtime.NumCPU()
	started := make(chan error, threads)
	for range threads {
		go func() {
			runtime.LockOSThread() // a thread has a priority of its own
			err := lowestPriority()
			started <- err
			for err == nil {
			}
		}()
	}
	for range threads {
		if err := <-started; err != nil {
			return err
		}
	}
	fmt.Println("busy")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// lowestPriority has this thread run when no other needs its CPU.
func lowestPriority() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
}

// keepBusy has no CPU idle until stop is called.
func (c *cpus) keepBusy(ctx context.Context) (stop func(), err error) {
	var servers, clients *process.Clients
	start := func(p **process.Clients) (err error) {
		*p, err = process.StartClients(ctx, os.Args[0], "-busy")
		return err
	}
	if err := c.onServers(func() error { return start(&servers) }); err != nil {
		return nil, err
	}
	if err := start(&clients); err != nil {
		servers.Stop()
		return nil, err
	}
	stop = func() { servers.Stop(); clients.Stop() }
	if err := errors.Join(servers.Expect("busy"), clients.Expect("busy")); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}
