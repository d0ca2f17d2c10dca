// Command mutants breaks the product in one place at a time and runs the tests that must find it: README.md says
// more. It is run in the folder tools:
//
//	go run ./mutants [-check] [-list] [-only text]
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	only := flag.String("only", "", "only entries with this text in the name of the list, the description or the tests")
	list := flag.Bool("list", false, "print the entries")
	check := flag.Bool("check", false, "only check that each entry is in exactly one place and compiles")
	parallel := flag.Int("p", 2, "how many at a time")
	lists := flag.String("lists", "mutants", "the folder of the lists")
	flag.Parse()
	ok, err := start(*lists, *only, *list, *check, *parallel)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

func start(lists, only string, list, check bool, parallel int) (ok bool, err error) {
	all, err := readLists(lists, only)
	if err != nil || list {
		for _, m := range all {
			fmt.Printf("%s: %s\n\tgo test %s\n", m.where, m.name, strings.Join(m.test, " "))
		}
		return err == nil, err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return false, err
	}
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(temp)
	r := &runner{root: root, temp: temp}
	if !check {
		r.root = filepath.Join(temp, "tree")
		if err := copyTree(root, r.root); err != nil {
			return false, err
		}
		if err := r.testUnbroken(all, parallel); err != nil {
			return false, err
		}
	}
	return r.runAll(all, check, parallel), nil
}

// readLists reads all lists of a folder.
func readLists(dir, only string) (all []*mutant, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list, err := parse(filepath.Base(name), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	all = slices.DeleteFunc(all, func(m *mutant) bool {
		return !strings.Contains(m.where+" "+m.name+" "+strings.Join(m.test, " "), only)
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("no entry has %q", only)
	}
	return all, nil
}

// testUnbroken runs the same tests on the product as it is: a test that fails anyway finds nothing.
func (r *runner) testUnbroken(all []*mutant, parallel int) error {
	patterns := make(map[string][]string) // by the other arguments
	for _, m := range all {
		rest, pattern := slices.Clone(m.test), "."
		if i := slices.Index(rest, "-run"); i >= 0 && i+1 < len(rest) {
			pattern = rest[i+1]
			rest = slices.Delete(rest, i, i+2)
		}
		key := strings.Join(rest, " ")
		if !slices.Contains(patterns[key], pattern) {
			patterns[key] = append(patterns[key], pattern)
		}
	}
	var mu sync.Mutex
	var failures []error
	each(slices.Sorted(maps.Keys(patterns)), parallel, func(key string) {
		begun := time.Now()
		args := append(strings.Fields(key), "-run", strings.Join(patterns[key], "|"))
		out, err := goTest(r.root, unbrokenLimit, args...)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failures = append(failures, fmt.Errorf("without a break: go test %s: %w\n%s", strings.Join(args, " "), err, out))
			return
		}
		fmt.Printf("%6.1f s  passes without a break: %s\n", time.Since(begun).Seconds(), key)
	})
	return errors.Join(failures...)
}

// each calls do with all items, some at a time.
func each[T any](items []T, atATime int, do func(T)) {
	var wg sync.WaitGroup
	next := make(chan T)
	for range atATime {
		wg.Go(func() {
			for item := range next {
				do(item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	wg.Wait()
}

// runAll prints a line for each mutant, and reports whether all were found, by more than the time limit.
func (r *runner) runAll(all []*mutant, check bool, parallel int) bool {
	var mu sync.Mutex
	begun, counts := time.Now(), make(tally)
	each(all, parallel, func(m *mutant) {
		at := time.Now()
		v, outcome := r.run(m, check)
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%6.1f s  %-16s %s\n\t  %s\n", time.Since(at).Seconds(), m.where, m.name, strings.TrimSpace(outcome))
		counts[v]++
	})
	fmt.Printf("%v, in %.0f s\n", counts, time.Since(begun).Seconds())
	return counts[found]+counts[matches] == len(all)
}

// A tally counts verdicts.
type tally map[verdict]int

func (t tally) String() string {
	if n := t[matches]; n > 0 {
		return fmt.Sprintf("%d of %d in exactly one place, and compile", n, n+t[untried])
	}
	all := 0
	for _, n := range t {
		all += n
	}
	return fmt.Sprintf("%d breaks: %d found, %d found by the time limit alone, %d not found, %d could not be tried",
		all, t[found], t[late], t[missed], t[untried])
}
