package page

import (
	"flag"
	"testing"
)

func TestSectionsAreReplacedAlone(t *testing.T) {
	one := replace("", "Servers", "old\n")
	two := replace(one, "Limits", "a\n\n### b\n\nc")
	three := replace(two, "Servers", "new")
	want := head + "\n## Servers\n\nnew\n\n## Limits\n\na\n\n### b\n\nc\n"
	if three != want {
		t.Errorf("%q, want %q", three, want)
	}
	if again := replace(three, "Limits", "a\n\n### b\n\nc"); again != want {
		t.Errorf("writing the same again changes the page: %q", again)
	}
}

// The command of a section can be repeated: the flag package takes no word behind a switch
// for its value.
func TestCommandCanBeRepeated(t *testing.T) {
	old := flag.CommandLine
	defer func() { flag.CommandLine = old }()
	flag.CommandLine = flag.NewFlagSet("compare", flag.ContinueOnError)
	flag.Bool("tls", false, "")
	flag.Int("rounds", 3, "")
	flag.String("only", "", "")
	if err := flag.CommandLine.Parse([]string{"-tls", "-rounds", "1", "-only", "a|b"}); err != nil {
		t.Fatal(err)
	}
	if got, want := Command("compare"), "```\ngo run ./cmd/compare -only 'a|b' -rounds 1 -tls=true\n```\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
