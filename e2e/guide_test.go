package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/process"
)

// guide does what a page tells its reader to do, in an empty folder: it saves the files, changes them and runs the
// commands. The program serves on a port of its own.
type guide struct {
	t      *testing.T
	steps  []step // those that are left
	dir    string
	addr   string
	server *server // of the latest "go run ."
}

// A step is one block of a page: a file to save, a replacement in a file, or commands.
type step struct {
	file     string // empty: commands
	old, new string // old is empty: the whole file
	commands []string
}

var (
	saveThis  = regexp.MustCompile("[Ss]ave this as `([^`]+)`:$")
	replaceIn = regexp.MustCompile("^In `([^`]+)`, replace$")
)

// stepsOf reads the steps of a page. What to do with a block is in the line before it; blocks of commands need none.
func stepsOf(t *testing.T, page string) (steps []step) {
	t.Helper()
	before, replaced := "", step{}
	for len(page) > 0 {
		line, rest, _ := strings.Cut(page, "\n")
		page = rest
		language, fence := strings.CutPrefix(line, "```")
		if !fence {
			if line != "" {
				before = line
			}
			continue
		}
		block, rest, found := strings.Cut("\n"+page, "\n```\n")
		if !found {
			t.Fatalf("the block after %q does not end", before)
		}
		page, block = rest, strings.TrimPrefix(block, "\n")+"\n"
		if m := saveThis.FindStringSubmatch(before); m != nil {
			steps = append(steps, step{file: m[1], new: block})
		} else if m := replaceIn.FindStringSubmatch(before); m != nil {
			replaced = step{file: m[1], old: block}
		} else if before == "by" {
			replaced.new = block
			steps = append(steps, replaced)
		} else if language == "sh" {
			steps = append(steps, step{commands: strings.Split(strings.TrimSpace(block), "\n")})
		}
		before = ""
	}
	return steps
}

// followGuide begins at the first step of the first page.
func followGuide(t *testing.T, pages ...string) *guide {
	t.Helper()
	needBrowser(t)
	g := &guide{t: t, dir: t.TempDir(), addr: process.FreeAddr(t)}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		g.steps = append(g.steps, stepsOf(t, string(text))...)
	}
	return g
}

// run takes the steps up to the next "go run ." and returns the program, which serves by then.
func (g *guide) run() *server {
	g.t.Helper()
	if !g.until("go run .") {
		g.t.Fatal("the page runs no program any more")
	}
	return g.server
}

// finish takes the steps that are left, which run no program.
func (g *guide) finish() {
	g.t.Helper()
	if g.until("go run .") {
		g.t.Fatal("the page runs the program once more than this test looks at it")
	}
}

// until takes the steps up to one with a command, and reports whether there was one.
func (g *guide) until(command string) bool {
	g.t.Helper()
	for len(g.steps) > 0 {
		s := g.steps[0]
		g.steps = g.steps[1:]
		if s.file != "" {
			g.write(s)
		}
		last := ""
		for _, c := range s.commands {
			g.command(c)
			last = c
		}
		if last == command {
			return true
		}
	}
	return false
}

// write saves a file or changes it. The program serves on the guide's port.
func (g *guide) write(s step) {
	g.t.Helper()
	name, text := filepath.Join(g.dir, s.file), s.new
	if s.old != "" {
		was, err := os.ReadFile(name)
		if err != nil {
			g.t.Fatal(err)
		}
		if n := strings.Count(string(was), s.old); n != 1 {
			g.t.Fatalf("%s has %d times what is to be replaced:\n%s\n%s", s.file, n, s.old, was)
		}
		text = strings.Replace(string(was), s.old, s.new, 1)
	}
	if s.file == "main.go" && s.old == "" {
		if !strings.Contains(text, `"127.0.0.1:8080"`) {
			g.t.Fatal("the program does not serve on 127.0.0.1:8080")
		}
		text = strings.ReplaceAll(text, "127.0.0.1:8080", g.addr)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// command runs a command as it stands in the page. The module is that of this checkout.
func (g *guide) command(line string) {
	g.t.Helper()
	switch {
	case line == "go run .":
		g.sh("go build -race -o next .") // while the former one serves: pages wait longer after each failure to connect
		if g.server != nil {
			g.server.kill()
		}
		g.sh("mv next program")
		g.server = startServer(g.t, g.addr, func(string) *exec.Cmd {
			program := exec.Command(filepath.Join(g.dir, "program"))
			program.Dir = g.dir
			return program
		})
		awaitServing(g.t, g.server)
	case strings.HasPrefix(line, "mkdir "):
		g.sh(line)
		g.dir = filepath.Join(g.dir, strings.TrimSpace(line[strings.LastIndex(line, "cd ")+3:]))
	case strings.HasPrefix(line, "go mod init "):
		g.sh(line)
		checkout, err := filepath.Abs("..")
		if err != nil {
			g.t.Fatal(err)
		}
		g.sh(fmt.Sprintf("go mod edit -replace 'github.com/wskit/wskit=%s'", checkout))
	case line == "go mod tidy": // the proxy for modules may fail for a moment
		again, err := filepath.Abs("../tools/again")
		if err != nil {
			g.t.Fatal(err)
		}
		g.sh("'" + again + "' " + line)
	default:
		g.sh(line)
	}
}

func (g *guide) sh(line string) {
	g.t.Helper()
	command := exec.Command("sh", "-c", line)
	command.Dir = g.dir
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := command.CombinedOutput(); err != nil {
		g.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// awaitServing waits until a program accepts connections: it says where it serves before it does.
func awaitServing(t *testing.T, s *server) {
	t.Helper()
	poll.Until(t, "the program accepts connections", func() bool {
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			return false
		}
		return nc.Close() == nil
	})
}
