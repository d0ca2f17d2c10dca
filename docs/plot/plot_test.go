package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The pictures are what the code decides today.
func TestPicturesAreCurrent(t *testing.T) {
	for _, s := range subjects {
		want, err := draw(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", s.name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s.svg is out of date: go generate ./docs/plot", s.name)
		}
	}
}

// What docs/limits.md says of the most in any window is seen in these requests.
func TestBusiestWindow(t *testing.T) {
	want := map[string]int{"token-bucket": 20, "pacer": 11, "fixed-window": 20, "sliding-window": 12, "sliding-log": 10}
	for _, s := range subjects {
		all, err := run(s.policy)
		if err != nil {
			t.Fatal(err)
		}
		if got := busiest(all, 4*time.Second); got > want[s.name] || got < 10 {
			t.Errorf("%v let %d through in 4 s; want 10 to %d", s.policy, got, want[s.name])
		}
	}
}
