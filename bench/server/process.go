package server

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the processor time, user and system, that a process has used so far, by the clock that
// Linux keeps for each process.
func CPUTime(pid int) (time.Duration, error) {
	const scheduled = 2 // the kind of clock, see CPUCLOCK_SCHED in the kernel
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("server: the processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
