package load

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// raiseOpenFiles allows need descriptors. Go raises the soft limit to the hard
// one at start-up, so only the hard limit is left to try, which needs privilege.
func raiseOpenFiles(need uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("load: reading the limit of open files: %w", err)
	}
	if limit.Cur >= need {
		return nil
	}
	raised := unix.Rlimit{Cur: need, Max: max(need, limit.Max)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
		return fmt.Errorf("load: %d open files are needed and %d allowed (raise it with ulimit -Hn): %w", need, limit.Cur, err)
	}
	return nil
}
