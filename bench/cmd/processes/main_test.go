package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/page"
)

// Both kinds deliver every message to every connection, and the table has the figures of both.
func TestDeliversToAllProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the servers")
	}
	section, err := measure(context.Background(), t.TempDir(), settings{
		rounds: 1, servers: 3, conns: 20, rooms: 15, all: 3, messages: 3, pause: 20 * time.Millisecond, every: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range section.Table[1 : len(section.Table)-1] {
		if (line[1] == "0.00" || line[2] == "0.00") && !strings.Contains(line[0], "outside of") { // less than the clock shows
			t.Errorf("%q has an empty figure", line)
		}
	}
	missing := section.Table[len(section.Table)-1]
	if missing[1] != "0" || missing[2] != "0" {
		t.Errorf("missing messages: %q", missing)
	}
	t.Log("\n" + page.Table(section.Table))
}
