// Command suite runs the tests of all modules with go test, several packages at a time, and prints a line for each
// package, what failed with the command that repeats it, and at the end the slowest tests:
//
//	cd tools && go run ./suite           what make test runs
//	cd tools && go run ./suite -nightly  all tests, all with the race detector
//
// Tests run in random order. -seed repeats an order; the command of a failure names the seed.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	nightly := flag.Bool("nightly", false, "run all tests, all with the race detector")
	seed := flag.Int64("seed", 0, "the order of the tests (default: a random one)")
	only := flag.String("only", "", "run the stages whose name contains this text")
	flag.Parse()

	stages := everyday
	if *nightly {
		stages = all
	}
	r := &report{seed: cmp.Or(*seed, rand.Int64N(1<<31)), out: os.Stdout, root: "..", began: time.Now()}
	fmt.Printf("order of the tests: -shuffle=%d\n", r.seed)
	var running sync.WaitGroup
	for _, s := range stages {
		if strings.Contains(s.name, *only) {
			running.Go(func() { r.run(s) })
		}
	}
	running.Wait()
	if !r.end() {
		os.Exit(1)
	}
}

// run runs the commands of a stage one after the other.
func (r *report) run(s stage) {
	for _, c := range s.commands {
		if err := r.command(c); err != nil {
			r.broken(c, err)
		}
	}
}

// command runs one go test and reports what it says. A failed test is no error.
func (r *report) command(c command) error {
	packages, err := c.list(r.root)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"test", "-json", fmt.Sprintf("-shuffle=%d", r.seed)}, packages, c.flags)
	test := exec.Command("go", args...)
	test.Dir = filepath.Join(r.root, c.dir)
	test.Stderr = os.Stderr
	out, err := test.StdoutPipe()
	if err != nil {
		return err
	}
	if err := test.Start(); err != nil {
		return err
	}
	failed := r.read(c, out)
	if err := test.Wait(); err != nil && !failed {
		return err
	}
	return nil
}

// list returns the packages of a command in the order in which they begin: what takes longest first.
func (c command) list(root string) ([]string, error) {
	list := exec.Command("go", "list", "./...")
	list.Dir = filepath.Join(root, c.dir)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", c.dir, err)
	}
	return c.choose(strings.Fields(string(out)))
}
