//go:build !unix

package process

import (
	"errors"
	"os"
)

// Stop fails: this system cannot pause a process.
func Stop(*os.Process) error { return errors.ErrUnsupported }

// Continue fails: this system cannot pause a process.
func Continue(*os.Process) error { return errors.ErrUnsupported }
