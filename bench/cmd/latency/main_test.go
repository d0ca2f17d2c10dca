package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/turns"
)

// The command measures every server, and its table has a figure of each.
func TestMeasuresEveryServer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the servers")
	}
	section, err := measure(context.Background(), t.TempDir(), settings{rounds: 1, conns: 5, duration: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range section.Table {
		if len(line) != 1+len(turns.Names())+3 {
			t.Errorf("%q has %d cells", line, len(line))
		}
		inTime := strings.Contains(line[0], "left late") // 0.00 is a figure there
		for _, cell := range line[1 : 1+len(turns.Names())] {
			if cell == "–" || cell == "0.00" && !inTime {
				t.Errorf("%q has an empty figure", line)
			}
		}
	}
}
