package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// cpuTime is the processor time, user and system, the child has used so far. Linux
// reports it in hundredths of a second to every architecture Go runs on.
func (ch *child) cpuTime() (time.Duration, error) {
	const tick = 10 * time.Millisecond
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", ch.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The command's name, in parentheses, may hold spaces; fields count from behind it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3 // proc(5) counts from 1, and field 3 is the first here
	if len(fields) <= stime {
		return 0, fmt.Errorf("compare: unexpected /proc/PID/stat: %q", stat)
	}
	user, err := strconv.ParseInt(string(fields[utime]), 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(string(fields[stime]), 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(user+system) * tick, nil
}

// rss is the child's resident memory in bytes. smaps_rollup walks the page tables and
// is exact; statm lags behind on machines with several cores.
func (ch *child) rss() (int64, error) {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", ch.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(rollup) {
		if value, ok := bytes.CutPrefix(line, []byte("Rss:")); ok {
			kb, err := strconv.ParseInt(string(bytes.Fields(value)[0]), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("compare: no Rss in smaps_rollup")
}
