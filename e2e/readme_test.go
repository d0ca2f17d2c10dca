package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The README's first program, built with the README's commands, is a chat in the
// browser, at both names of this machine.
func TestFirstProgramOfTheReadme(t *testing.T) {
	s := startFirstProgram(t)
	_, port, _ := strings.Cut(s.addr, ":")

	// Both must be closed in the end.
	silent := dialRaw(t, s.addr, "")
	unfinished := dialRaw(t, s.addr, "POST / HTTP/1.1\r\nHost: "+s.addr+"\r\nContent-Length: 9\r\n\r\n")

	ada := openTab(t, s.url(), "Ada")
	bob := openTab(t, "http://localhost:"+port+"/", "Bob")
	for _, tb := range []*tab{ada, bob} {
		tb.until("in the room", shows("room.join.reply"))
		tb.do(chromedp.Focus("input"))
	}
	ada.keys("Hello Bob")
	ada.enter()
	bob.until("Ada's message", shows("Hello Bob"))
	bob.keys("<b>Hello</b> Ada")
	bob.enter()
	for _, tb := range []*tab{ada, bob} {
		tb.until("Bob's message, as text", shows("<b>Hello</b> Ada"))
	}
	if n := eval[int](ada, `document.querySelectorAll("b").length`); n > 0 {
		t.Error("markup in a message became an element")
	}

	// A newcomer's page may say 127.0.0.1 where the browser says localhost.
	for tb, host := range map[*tab]string{ada: "localhost", bob: "127.0.0.1"} {
		tb.until("connected to "+host, connects(host+":"+port))
	}

	// A page of another server is refused, and the log says what to set.
	foreign := openTab(t, blankPage(t), "Eve")
	for range 2 {
		foreign.until("refused", `(`+connects(s.addr)+`) === false`)
	}
	origin := strings.TrimSuffix(eval[string](foreign, "location.href"), "/")
	if n := strings.Count(s.output.String(), "add "+origin+" to router.Options.Origins"); n != 1 {
		t.Errorf("the log says %d times what lets %s connect, want once:\n%s", n, origin, s.output)
	}

	// A flood is answered with the time to wait.
	eval[any](ada, `void [...Array(40)].forEach(() => { document.querySelector("input").value = "again"; document.querySelector("button").click() })`)
	ada.until("a refusal", shows("RESOURCE_EXHAUSTED")+"&&"+shows("retryAfterMs"))

	for what, nc := range map[string]net.Conn{"a socket that says nothing": silent, "a request whose body never comes": unfinished} {
		if _, err := io.Copy(io.Discard, nc); err != nil {
			t.Errorf("%s is still open: %v", what, err)
		}
	}
}

func shows(text string) string { return `document.body.innerText.includes(` + js(text) + `)` }

// connects is an expression: whether a WebSocket to host opens; null while that is
// open. Evaluated again it asks about the same WebSocket until there is an answer.
func connects(host string) string {
	return `(() => {
		const tries = window.tries ??= {}, host = ` + js(host) + `;
		tries[host] ??= new WebSocket("ws://" + host + "/ws");
		const state = tries[host].readyState;
		if (state === WebSocket.CONNECTING) return null;
		delete tries[host];
		return state === WebSocket.OPEN;
	})()`
}

// startFirstProgram builds the first program of the README in a folder of its own and
// starts it on a port of its own.
func startFirstProgram(t *testing.T) *server {
	t.Helper()
	needBrowser(t)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, rest := codeBlock(t, string(readme), "```go\n", "package main")
	commands, _ := codeBlock(t, rest, "```\n", "go mod init")

	clone, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	parent, addr := t.TempDir(), unusedAddr(t)
	if !strings.Contains(program, `"127.0.0.1:8080"`) {
		t.Fatal("the program does not serve on 127.0.0.1:8080")
	}
	program = strings.ReplaceAll(program, "127.0.0.1:8080", addr)
	dir := filepath.Join(parent, "hello")
	for line := range strings.Lines(commands) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "git clone https://github.com/wskit/wskit"):
			err = os.Symlink(clone, filepath.Join(parent, "wskit"))
		case strings.HasPrefix(line, "mkdir hello && cd hello"):
			if err = os.Mkdir(dir, 0o755); err == nil {
				err = os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644)
			}
		default:
			command := exec.Command("sh", "-c", strings.Replace(line, "go run .", "go build -race -o hello .", 1))
			command.Dir = dir
			if out, failed := command.CombinedOutput(); failed != nil {
				err = fmt.Errorf("%w\n%s", failed, out)
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	s := startServer(t, addr, func(string) *exec.Cmd { return exec.Command(filepath.Join(dir, "hello")) })
	for { // it says where it serves before it does
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
			return s
		}
		select {
		case <-s.ended:
			t.Fatalf("the program ended: %v\n%s", s.err, s.output)
		case <-time.After(pollEvery):
		}
	}
}

// codeBlock returns the first block of text that begins with the fence and has the
// words in it, and the text after it.
func codeBlock(t *testing.T, text, fence, words string) (block, rest string) {
	t.Helper()
	for {
		_, after, found := strings.Cut(text, "\n"+fence)
		if !found {
			t.Fatalf("the README has no block with %q", words)
		}
		if block, rest, _ = strings.Cut(after, "\n```\n"); strings.Contains(block, words) {
			return block + "\n", rest
		}
		text = rest
	}
}

// unusedAddr is an address outside the range from which systems choose ports, so
// that nothing takes it before the program does.
func unusedAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// dialRaw opens a socket and writes to it; the test closes it.
func dialRaw(t *testing.T, addr, write string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(hangGuard))
	if _, err := io.WriteString(nc, write); err != nil {
		t.Fatal(err)
	}
	return nc
}

// blankPage serves an empty page on a port of its own and returns its URL.
func blankPage(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + "/"
}
