package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/process"
)

// The image of the Dockerfile has one file and a user without rights. The program that its build stage makes needs no
// more: it serves in a folder that has nothing else, is ready where kubernetes.yaml asks, and ends in good order.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	image := readDockerfile(t)
	root := t.TempDir()
	p := image.start(t, root)
	if status := get(t, "http://"+p.addr+manifest(t, `httpGet: \{ path: (/\w+),`)); status != 200 {
		t.Errorf("the readiness probe is answered %d", status)
	}
	ws, _, err := websocket.Dial(t.Context(), "ws://"+p.addr+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"echo","meta":{"correlationId":"1"},"payload":"hi"}`)); err != nil {
		t.Fatal(err)
	}
	if _, answer, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(answer), `"payload":"hi"`) {
		t.Errorf("the answer: %s, %v", answer, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _, err = ws.Read(t.Context())
	sentAway(t, err)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM the program ends with %v", err)
	}
}

// The parts of the Dockerfile fit together, and to the program.
func TestDockerfile(t *testing.T) {
	image := readDockerfile(t)
	if want := []string{image.copied}; !slices.Equal(image.entrypoint, want) {
		t.Errorf("the image starts %q and has %q", image.entrypoint, want)
	}
	if !strings.HasPrefix(image.build, "CGO_ENABLED=0 ") {
		t.Errorf("%s makes a program that needs libraries where there is a C compiler", image.build)
	}
	if ":"+image.port != defaultAddr {
		t.Errorf("the image exposes %s, and the program listens on %s", image.port, defaultAddr)
	}
	if port := manifest(t, `containerPort: (\d+)`); port != image.port {
		t.Errorf("the image exposes %s, and Kubernetes connects to %s", image.port, port)
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module)); image.golang != want[1] {
		t.Errorf("the image is built with Go %s, the module needs %s", image.golang, want[1])
	}
}

// dockerfile is what a Dockerfile with one stage that builds and one that is the image says.
type dockerfile struct {
	golang     string // version
	build      string // command that writes the program
	built      string // where it writes it
	copied     string // where the image has it
	port       string
	entrypoint []string
}

func readDockerfile(t *testing.T) (d dockerfile) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(rest)
		switch {
		case instruction == "FROM" && slices.Equal(words[1:], []string{"AS", "build"}):
			d.golang = strings.TrimPrefix(words[0], "golang:")
		case instruction == "RUN" && strings.Contains(rest, "go build"):
			d.build, d.built = rest, words[slices.Index(words, "-o")+1]
		case instruction == "COPY" && words[0] == "--from=build":
			if words[1] != d.built {
				t.Errorf("%s is copied, and %s is built", words[1], d.built)
			}
			d.copied = words[2]
		case instruction == "EXPOSE":
			d.port = rest
		case instruction == "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &d.entrypoint); err != nil {
				t.Errorf("ENTRYPOINT %s is no list, so a shell gets SIGTERM in place of the program", rest)
			}
		}
	}
	return d
}

// running is the program in its root folder.
type running struct {
	cmd  *exec.Cmd
	addr string
}

// start builds the program and starts it with root as its whole file system, as a user that owns nothing.
func (d dockerfile) start(t *testing.T, root string) running {
	t.Helper()
	program := filepath.Join(root, d.copied)
	build := exec.Command("sh", "-c", strings.Replace(d.build, d.built, program, 1))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", d.build, err, out)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: program, Args: append(slices.Clone(d.entrypoint), "-addr", "127.0.0.1:0"), Env: []string{"GOMEMLIMIT=900MiB"}}
	process.DieWithParent(cmd)
	if os.Geteuid() == 0 { // others may not change the root
		cmd.Path, cmd.Dir = d.entrypoint[0], "/"
		cmd.SysProcAttr.Chroot = root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	_, addr, found := strings.Cut(strings.TrimSpace(line), "addr=")
	if !found {
		t.Fatalf("the program says %q, %v", line, err)
	}
	return running{cmd, addr}
}

// manifest returns a part of kubernetes.yaml.
func manifest(t *testing.T, pattern string) string {
	t.Helper()
	text, err := os.ReadFile("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("kubernetes.yaml has no %s", pattern)
	}
	return m[1]
}
