package main

import (
	"context"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/turns"
)

// Every server is killed, started again and answers all clients, and that of wskit is drained, too.
func TestMeasuresEveryServer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the servers")
	}
	s := settings{rounds: 1, clients: 10, within: 20 * time.Millisecond, window: 50 * time.Millisecond, quiet: 40 * time.Millisecond}
	section, err := measure(context.Background(), t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range section.Table {
		if len(line) != 1+len(turns.Names())+3 || line[1] == "–" {
			t.Errorf("%q has not all figures", line)
		}
	}
}
