package command_test

import (
	"flag"
	"io"
	"testing"
	"time"

	"github.com/wskit/wskit/bench/command"
)

func TestSizesArePositive(t *testing.T) {
	old := flag.CommandLine
	defer func() { flag.CommandLine = old }()
	flag.CommandLine = flag.NewFlagSet("test", flag.ContinueOnError)
	flag.CommandLine.SetOutput(io.Discard)
	n, d := command.Count("n", 3, ""), command.Span("d", time.Second, "")
	if *n != 3 || *d != time.Second {
		t.Errorf("%v and %v, want the defaults", *n, *d)
	}
	if err := flag.CommandLine.Parse([]string{"-n", "7", "-d", "5ms"}); err != nil || *n != 7 || *d != 5*time.Millisecond {
		t.Errorf("%v and %v, %v", *n, *d, err)
	}
	for _, bad := range [][]string{{"-n", "0"}, {"-n", "-1"}, {"-n", "x"}, {"-d", "0s"}, {"-d", "5"}} {
		if flag.CommandLine.Parse(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
