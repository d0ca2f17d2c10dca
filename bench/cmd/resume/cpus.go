package main

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// cpus are those of the server and those of its clients, as the clients of a real server have their own: half of the
// machine's for each. A machine with one has it for both.
type cpus struct{ server, clients unix.CPUSet }

// divideCPUs moves this process to the CPUs of the clients. The processes that it starts are there, too.
func divideCPUs() (c cpus, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return c, err
	}
	if all.Count() == 1 {
		return cpus{all, all}, nil
	}
	for cpu, seen := 0, 0; seen < all.Count(); cpu++ {
		switch {
		case !all.IsSet(cpu):
			continue
		case seen < all.Count()/2:
			c.server.Set(cpu)
		default:
			c.clients.Set(cpu)
		}
		seen++
	}
	threads, err := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		if err := unix.SchedSetaffinity(id, &c.clients); err != nil && err != unix.ESRCH {
			return c, err
		}
	}
	return c, err
}

// onServers runs start, which starts the process of the server: a process begins on the CPUs of the thread that starts it.
func (c *cpus) onServers(start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, &c.server); err != nil {
		return err
	}
	err := start()
	if back := unix.SchedSetaffinity(0, &c.clients); err == nil {
		err = back
	}
	return err
}
