package contract

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wskit/wskit/router"
)

// Each flag writes or compares the document, and ends the program when it is parsed.
func TestFlags(t *testing.T) {
	r := router.New()
	router.Declare[struct{ A int }](r, "it")
	c, err := Of(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	current, old := filepath.Join(dir, "contract.d.ts"), filepath.Join(dir, "old.d.ts")
	for file, text := range map[string]string{current: string(c.TypeScript()), old: "old\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	ended := 0
	var failed error
	defer func(w io.Writer, e func(error)) { stdout, exit = w, e }(stdout, exit)
	stdout, exit = &out, func(err error) { ended, failed = ended+1, err }
	run := func(args ...string) error {
		out.Reset()
		ended, failed = 0, nil
		flags := flag.NewFlagSet("chat", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		Flags(flags, func() (*Contract, error) { return c, nil })
		return flags.Parse(args)
	}
	for kind, document := range map[string][]byte{"ts": c.TypeScript(), "schema": c.JSONSchema(), "asyncapi": c.AsyncAPI()} {
		if err := run("-contract", kind); err != nil || ended != 1 || failed != nil || out.String() != string(document) {
			t.Errorf("-contract %s: %v, ended %d times, %v, %s", kind, err, ended, failed, &out)
		}
	}
	if err := run("-contract", "yaml"); err == nil || ended != 0 {
		t.Errorf("-contract yaml: %v, ended %d times", err, ended)
	}
	if run(); ended != 0 {
		t.Error("the program ends without a flag")
	}
	if err := run("-contract-check", current); err != nil || ended != 1 || failed != nil {
		t.Errorf("the current file: %v, %v", err, failed)
	}
	if err := run("-contract-check", old); err != nil || ended != 1 || failed == nil || !strings.Contains(failed.Error(), "- old") {
		t.Errorf("an old file: %v, %v", err, failed)
	}
}

func TestDiff(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{"a\nb\nc", "a\nx\nc", "    1   a\n    2 - b\n    2 + x\n    3   c\n"},
		{"a\nb", "a\nb\nc", "    2   b\n    3 + c\n"},
		{"a\nb\nc\nd\ne\nf\ng", "A\nb\nc\nd\ne\nf\nG", "    1 - a\n    1 + A\n    2   b\n  …\n    6   f\n    7 - g\n    7 + G\n"},
		{"b\nc", "a\nb\nx", "    1 + a\n    1   b\n    2 - c\n    3 + x\n"},
	} {
		if got := diff(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q:\n%swant\n%s", tc.a, tc.b, got, tc.want)
		}
	}
}
