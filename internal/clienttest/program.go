package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
)

// Program is the program clienttest: it runs a server until the standard input ends. Options are JSON, or nothing. Go
// tests that need the server in another process call it in one.
func Program(options string) {
	var o Options
	if options != "" {
		if err := json.Unmarshal([]byte(options), &o); err != nil {
			fmt.Fprintf(os.Stderr, "clienttest: the options %s: %v\n", options, err)
			os.Exit(2)
		}
	}
	run := &program{}
	defer run.end()
	s := Start(run, o)
	ready, err := json.Marshal(map[string]string{"url": s.URL, "control": s.Control})
	if err != nil {
		run.Fatal(err)
	}
	fmt.Println(string(ready))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// program stands for a test as long as the program runs.
type program struct {
	testing.TB // nil: what is not below is not used
	cleanups   []func()
}

func (p *program) end() {
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
	p.cleanups = nil
}

func (p *program) Helper()                      {}
func (p *program) Failed() bool                 { return false }
func (p *program) Cleanup(f func())             { p.cleanups = append(p.cleanups, f) }
func (p *program) Fatal(args ...any)            { p.fail(fmt.Sprint(args...)) }
func (p *program) Fatalf(f string, args ...any) { p.fail(fmt.Sprintf(f, args...)) }
func (p *program) Skip(args ...any)             { p.fail(fmt.Sprint(args...)) }
func (p *program) Errorf(f string, args ...any) {
	fmt.Fprintf(os.Stderr, "clienttest: "+f+"\n", args...)
}

func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "wskit-clienttest-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *program) fail(text string) {
	fmt.Fprintln(os.Stderr, "clienttest:", text)
	p.end()
	os.Exit(1)
}
