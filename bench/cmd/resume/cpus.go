package main

import (
	"errors"
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

// onServers runs start, which starts a process on the CPUs of the server: a process begins on those of the thread that
// starts it.
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

// undisturbed runs start, which starts a process that no other program keeps from its CPUs: it has a priority of real
// time, which a process also gets from the thread that starts it. It reports false where this process may not give one.
func undisturbed(start func() error) (bool, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return false, err
	}
	first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	switch err := unix.SchedSetAttr(0, &first, 0); err {
	case nil:
	case unix.EPERM:
		return false, start()
	default:
		return false, err
	}
	err = start()
	return true, errors.Join(err, unix.SchedSetAttr(0, before, 0))
}
