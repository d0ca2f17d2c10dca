package process

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Cmd is what the package paths of the commands of this module begin with.
const Cmd = "github.com/wskit/wskit/bench/cmd/"

// Build compiles a Go package into a folder and returns the program. It has to run inside this module.
func Build(ctx context.Context, folder, pkg string, flags ...string) (program string, err error) {
	program = filepath.Join(folder, filepath.Base(pkg)+strings.Join(flags, ""))
	args := append([]string{"build", "-o", program}, flags...)
	if err := Quietly(exec.CommandContext(ctx, "go", append(args, pkg)...)); err != nil {
		return "", fmt.Errorf("run this inside bench/: %w", err)
	}
	return program, nil
}

// Quietly runs a command and shows what it printed only if it fails.
func Quietly(cmd *exec.Cmd) error {
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text)
	}
	return nil
}
