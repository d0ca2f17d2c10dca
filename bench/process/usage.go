package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/wskit/wskit/bench/server"
)

// CPUTime is the processor time, user and system, the process has used so far.
func (p *Process) CPUTime() (time.Duration, error) { return server.CPUTime(p.cmd.Process.Pid) }

// UserTime is the part of CPUTime that the process spent in its own code and not in system calls, to a few
// milliseconds.
func (p *Process) UserTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	const utime, ticks = 11, 100 // the field, counted from the end of the name, and the unit in a second
	_, fields, _ := bytes.Cut(stat, []byte(") "))
	n, err := strconv.ParseInt(string(bytes.Fields(fields)[utime]), 10, 64)
	return time.Duration(n) * (time.Second / ticks), err
}

// CPUDuring is the processor time, user and system, that the process uses while do runs.
func (p *Process) CPUDuring(do func() error) (time.Duration, error) {
	before, err := p.CPUTime()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := p.CPUTime()
	return after - before, err
}

// RSS is the resident memory in bytes. smaps_rollup walks the page tables and
// is exact; statm lags behind on machines with several cores.
func (p *Process) RSS() (int64, error) {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return kilobytes(rollup, "Rss:")
}

// PeakRSS is the largest resident memory that the process has had, in bytes.
func (p *Process) PeakRSS() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return kilobytes(status, "VmHWM:")
}

// kilobytes returns the value, in bytes, of a line that has it in units of 1,024 bytes.
func kilobytes(lines []byte, name string) (int64, error) {
	for line := range bytes.Lines(lines) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			kb, err := strconv.ParseInt(string(bytes.Fields(value)[0]), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("process: %s is missing in the kernel's figures", name)
}
