package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

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
