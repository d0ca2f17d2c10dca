package main

import (
	"fmt"
	"slices"
)

// A stage is a list of commands that run one after the other. Stages run concurrently: the tests of one wait for
// servers and browsers while those of another compute.
type stage struct {
	name     string
	commands []command
}

// A command is one go test.
type command struct {
	dir   string   // the folder of the module, from the root of the project
	flags []string // of go test
	only  []string // packages, in this order; none: all of the module
	not   []string // packages that are left out
	first []string // packages that begin first, because they take longest
}

// Packages in whose tests goroutines of the product meet. make test gives them to the race detector. The others are
// mostly models with one goroutine, which it makes 3 to 15 times slower, or drive other processes; what of them is
// concurrent, as in adapters/memory, make nightly runs under it.
var concurrent = []string{
	"router", "router/internal/turn", "router/internal/wire", "middleware/gate", "middleware/ratelimit", "middleware/ratelimit/rules",
	"client", "inspect", "api", "webhook", "run",
	"examples/chat/server", "internal/batch", "internal/denialcache", "internal/outage", "limit", "pubsub/pubsubtest",
	"collect", "middleware/sharedrules", "router/internal/overload", "router/internal/life", "router/internal/presenceview",
	"router/internal/linger", "router/internal/cluster", "router/internal/hub", "router/internal/rights", "router/routertest", "internal/table", "internal/engine",
}

const (
	redis    = "adapters/redis"
	postgres = "adapters/postgres"
)

// The packages whose tests take longest, after it.
var long = []string{"adapters/cfdo", "clients/typescript", "internal/faulttest", "docs"}

// onlyWithoutRace are the tests that are skipped, or do less, under the race detector, which allocates, is slow and
// shuffles the scheduler: internal/house checks the names.
const onlyWithoutRace = "Alloc|Nothing|ManyConnections|ShareTheNextFlush|RFC|AgreesWith|RandomSequences"

const (
	// fewCases is how many generated cases a rule gets on a real Redis or PostgreSQL: each is many round trips. make nightly has all.
	fewCases = "-rapid.checks=20"
	// vetted says that make vet has looked at the tests, too.
	vetted = "-vet=off"
	guard  = "-timeout=30m" // ends a package that hangs; no test waits for it, and a busy machine takes its time
	// Tests wait for servers, networks and clocks more than for a CPU.
	manyAtOnce = "-parallel=8"
)

// everyday is what make test runs.
var everyday = []stage{
	{"concurrent", []command{
		{only: concurrent, flags: []string{"-race", "-p=2", vetted, manyAtOnce, guard}},
		{only: concurrent, flags: []string{"-run=" + onlyWithoutRace, vetted, guard}},
		{dir: "tools", flags: []string{guard}},
		{dir: "bench", flags: []string{vetted, guard}},
		{dir: "observe/prometheus", flags: []string{vetted, guard}},
		{dir: "observe/otel", flags: []string{vetted, guard}},
	}},
	{"redis", []command{
		{only: []string{redis}, flags: []string{fewCases, vetted, manyAtOnce, guard}},
		{dir: postgres, only: []string{postgres}, flags: []string{fewCases, vetted, manyAtOnce, guard}},
		{dir: postgres, not: []string{postgres}, flags: []string{vetted, guard}},
	}},
	{"plain", []command{{not: append([]string{redis}, concurrent...), first: long, flags: []string{"-p=2", vetted, manyAtOnce, guard}}}},
	{"browser", []command{{dir: "e2e", flags: []string{"-short", vetted, guard}}}},
}

const nightGuard = "-timeout=40m"

// all is what make nightly runs.
var all = []stage{
	{"main", []command{
		{first: slices.Concat([]string{redis}, long, concurrent), flags: []string{"-race", "-p=3", manyAtOnce, nightGuard}},
		{flags: []string{"-run=" + onlyWithoutRace, guard}},
		{only: []string{"webhook"}, flags: []string{"-run=TestSendersAreKilled", "-count=9", guard}}, // 540 rounds
		{dir: "tools", flags: []string{"-race", guard}},
		{dir: "bench", flags: []string{"-race", guard}},
		{dir: "observe/prometheus", flags: []string{"-race", guard}},
		{dir: "observe/otel", flags: []string{"-race", guard}},
		{dir: postgres, flags: []string{"-race", guard}},
		{dir: "verify", flags: []string{"-race", nightGuard}},
	}},
	{"browser", []command{{dir: "e2e", flags: []string{nightGuard}}}},
}

// choose returns which of the module's packages a command tests, in the order in which they begin.
func (c command) choose(packages []string) ([]string, error) {
	full := func(names []string) (paths []string, err error) {
		for _, name := range names {
			path := module + name
			if !slices.Contains(packages, path) {
				return nil, fmt.Errorf("tools/suite/stages.go names %s, and there is no such package", name)
			}
			paths = append(paths, path)
		}
		return paths, nil
	}
	only, err := full(c.only)
	if err != nil || only != nil {
		return only, err
	}
	not, err := full(c.not)
	if err != nil {
		return nil, err
	}
	first, err := full(c.first)
	if err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(packages, func(p string) bool {
		return slices.Contains(not, p) || slices.Contains(first, p)
	})
	return append(first, rest...), nil
}
