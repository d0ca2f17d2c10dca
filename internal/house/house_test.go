package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wskit/wskit"

// A part of the repository is a folder with everything below it, except for folders that
// have their own entry. Its packages may import the parts named here, each other, the standard
// library and other modules. Every package needs an entry; CONTRIBUTING.md says what each part has.
type part struct {
	folder string
	may    []string
}

const anything = "anything"

var parts = []part{
	{"errors", nil},
	{"limit", []string{"errors", "internal/batch", "internal/engine", "internal/given", "internal/histogram", "internal/leasecheck", "internal/outage"}},
	{"limit/limittest", []string{"limit", "errors"}},
	{"idempotency", nil},
	{"idempotency/idempotencytest", []string{"idempotency", "internal/poll"}},
	{"ingress", []string{"errors", "internal/ceil", "internal/closereason", "internal/envelope", "internal/handshake", "internal/httpclose", "internal/inbound", "internal/problem"}},
	{"collect", []string{"router", "errors", "internal/given"}},
	{"pubsub", nil},
	{"pubsub/pubsubtest", []string{"pubsub", "internal/poll"}},
	{"middleware/gate", []string{"limit", "ingress", "errors", "internal/ceil", "internal/given", "internal/handshake", "internal/httpclose", "internal/limitname"}},
	{"middleware/ratelimit/internal/enforce", []string{"limit", "ingress", "errors", "internal/inbound"}},
	{"middleware/ratelimit", []string{"middleware/ratelimit/internal/enforce", "limit", "ingress", "errors", "internal/ceil", "internal/given", "internal/limitname"}},
	{"middleware/ratelimit/rules", []string{"middleware/ratelimit", "middleware/ratelimit/internal/enforce", "limit", "ingress", "errors", "internal/ceil", "internal/given", "internal/limitname"}},
	{"adapters", []string{"limit", "pubsub", "idempotency"}},
	{"adapters/memory", []string{"adapters", "limit", "pubsub", "idempotency", "internal/engine", "internal/given", "internal/leasecheck"}},
	{"adapters/redis", []string{"adapters", "limit", "pubsub", "idempotency", "errors", "internal/asks", "internal/batch", "internal/denialcache", "internal/engine", "internal/given", "internal/leasecheck", "internal/outage"}},
	{"adapters/cfdo", []string{"limit", "internal/batch", "internal/denialcache", "internal/engine", "internal/given", "internal/leasecheck"}},
	{"router", []string{"adapters", "adapters/memory", "ingress", "pubsub", "idempotency", "errors", "internal/ceil", "internal/closereason", "internal/envelope", "internal/flat", "internal/given", "internal/handshake", "internal/histogram", "internal/httpclose", "internal/inbound", "internal/inspection", "internal/jsontype", "internal/leasecheck", "internal/outage",
		"router/internal/cluster", "router/internal/codec", "router/internal/dedupe", "router/internal/fairness", "router/internal/follow", "router/internal/frame", "router/internal/hub", "router/internal/life", "router/internal/limitfeed", "router/internal/linger", "router/internal/logcache", "router/internal/metrics", "router/internal/origin", "router/internal/overload", "router/internal/pending", "router/internal/presenceview", "router/internal/rights", "router/internal/serial", "router/internal/session", "router/internal/testmode", "router/internal/timerwheel", "router/internal/turn", "router/internal/watchdog", "router/internal/wire"}},
	{"router/internal/cluster", []string{"errors", "pubsub"}},
	{"router/internal/codec", []string{"errors", "internal/flat", "internal/jsontype"}},
	{"router/internal/dedupe", []string{"idempotency"}},
	{"router/internal/fairness", nil},
	{"router/internal/follow", []string{"pubsub"}},
	{"router/internal/frame", []string{"router/internal/wire"}},
	{"router/internal/hub", []string{
		"errors", "pubsub", "internal/envelope", "internal/inspection", "internal/outage", "router/internal/follow", "router/internal/frame",
		"router/internal/logcache", "router/internal/wire"}},
	{"router/internal/life", nil},
	{"router/internal/limitfeed", []string{"internal/ceil", "internal/inbound", "router/internal/frame"}},
	{"router/internal/linger", nil},
	{"router/internal/logcache", []string{"pubsub"}},
	{"router/internal/metrics", []string{"errors", "internal/histogram"}},
	{"router/internal/origin", []string{"errors", "ingress"}},
	{"router/internal/overload", []string{"router/internal/timerfd"}},
	{"router/internal/pending", nil},
	{"router/internal/presenceview", []string{"pubsub", "router/internal/frame"}},
	{"router/internal/rights", []string{"errors", "pubsub", "internal/logfollow", "internal/outage"}},
	{"router/internal/serial", nil},
	{"router/internal/session", nil},
	{"router/internal/testmode", nil},
	{"router/internal/timerfd", nil},
	{"router/internal/timerwheel", nil},
	{"router/internal/turn", nil},
	{"router/internal/watchdog", []string{"router/internal/timerfd"}},
	{"router/internal/wire", nil},
	{"router/routertest", []string{"router", "router/internal/testmode", "errors", "internal/given"}},
	{"clients/typescript", nil},
	{"client", []string{"errors", "internal/given"}},
	{"contract", []string{"router", "errors", "internal/given", "internal/jsontype"}},
	{"middleware/sharedrules", []string{"middleware/ratelimit/rules", "pubsub", "errors", "internal/given", "internal/logfollow", "internal/outage"}},
	{"api", []string{"router", "contract", "middleware/ratelimit", "limit", "idempotency", "ingress", "errors", "internal/pattern", "internal/problem"}},
	{"webhook", []string{"router", "limit", "pubsub", "errors", "internal/outage", "internal/pattern", "internal/shared"}},
	{"run", []string{"router", "limit", "pubsub", "errors", "internal/given", "internal/outage", "internal/shared"}},
	{"inspect", []string{"router", "middleware/ratelimit", "middleware/ratelimit/rules", "middleware/sharedrules", "limit", "ingress", "pubsub", "run", "errors", "internal/inspection"}},
	{"cmd", []string{anything}},
	{"observe/internal/figures", []string{"router", "limit", "middleware/gate", "middleware/ratelimit/rules", "adapters/memory", "adapters/redis", "adapters/cfdo", "run", "webhook", "internal/histogram"}},
	{"examples", []string{anything}},
	{"docs", nil},
	{"docs/plot", []string{"limit"}},
	{"docs/skill", nil},
	{"docs/tasks", []string{"adapters/memory", "adapters/redis", "ingress", "limit", "middleware/gate", "middleware/ratelimit", "router"}},
	{"internal/batch", []string{"errors"}},
	{"internal/ceil", nil},
	{"internal/closereason", []string{"internal/ceil"}},
	{"internal/envelope", []string{"errors", "internal/flat"}},
	{"internal/flat", []string{"internal/jsontype"}},
	{"internal/clienttest", []string{"adapters", "adapters/memory", "adapters/redis", "errors", "idempotency", "ingress", "limit", "middleware/gate", "middleware/ratelimit", "pubsub", "router", "run", "internal/redistest"}},
	{"internal/asks", []string{"limit", "internal/denialcache", "internal/engine"}},
	{"internal/denialcache", []string{"limit", "internal/engine", "internal/table"}},
	{"internal/deliverytest", []string{"pubsub"}},
	{"internal/engine", []string{"internal/table"}},
	{"internal/exampletest", []string{"errors", "internal/poll", "internal/process", "internal/transcript"}},
	{"internal/faulttest", []string{"adapters", "adapters/redis", "errors", "ingress", "limit", "middleware/gate", "middleware/ratelimit", "pubsub", "router", "run", "internal/deliverytest", "internal/poll", "internal/process", "internal/redistest", "internal/runcheck", "internal/transcript"}},
	{"internal/runcheck", []string{"client", "client/runs", "errors", "run"}},
	{"internal/given", []string{"errors"}},
	{"internal/handshake", nil},
	{"internal/histogram", nil},
	{"internal/house", nil},
	{"internal/httpclose", []string{"errors"}},
	{"internal/inbound", nil},
	{"internal/inspection", []string{"errors", "pubsub"}},
	{"internal/jsontype", []string{"errors"}},
	{"internal/leasecheck", []string{"errors"}},
	{"internal/limitname", []string{"limit", "internal/engine"}},
	{"internal/logfollow", []string{"pubsub", "errors", "internal/outage"}},
	{"internal/leaktest", []string{"internal/poll"}},
	{"internal/outage", []string{"errors"}},
	{"internal/pattern", nil},
	{"internal/poll", nil},
	{"internal/problem", []string{"errors", "internal/ceil"}},
	{"internal/process", nil},
	{"internal/race", nil},
	{"internal/redistest", []string{"adapters", "adapters/redis", "internal/poll", "internal/process", "internal/stepclock", "internal/transcript"}},
	{"internal/shared", []string{"adapters", "adapters/memory", "limit", "pubsub"}},
	{"internal/stepclock", nil},
	{"internal/suitetest", nil},
	{"internal/table", nil},
	{"internal/transcript", nil},
	{"internal/vectors", []string{"limit"}},
	{"internal/workerdtest", []string{"internal/poll", "internal/process", "internal/stepclock", "internal/transcript"}},
}

// partOf finds the part of a package, by the longest folder that contains it.
func partOf(pkg string) (found part, ok bool) {
	for _, r := range parts {
		if within(pkg, module+"/"+r.folder) && (!ok || len(r.folder) > len(found.folder)) {
			found, ok = r, true
		}
	}
	return found, ok
}

// within reports whether a package is in a folder or below it.
func within(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// listed is the output of go list for a package.
type listed struct {
	ImportPath, Dir, Name, ForTest string
	GoFiles                        []string
	Imports                        []string
}

// list runs go list. It also lists packages that do not compile: they fail elsewhere.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,Name,ForTest,GoFiles,Imports"}, args...)...)
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
		all = append(all, p)
	}
}

// root is the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFoldersImportOnlyWhatTheyMay(t *testing.T) {
	packages := list(t, "./...")
	if len(packages) == 0 {
		t.Fatal("go list found no packages")
	}
	for _, p := range packages {
		in, ok := partOf(p.ImportPath)
		if !ok {
			t.Errorf("%s has no entry; add one here, and what it is for in CONTRIBUTING.md", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !within(imported, module) || slices.Contains(in.may, anything) {
				continue
			}
			other, ok := partOf(imported)
			switch {
			case !ok:
				t.Errorf("%s imports %s, which has no entry", p.ImportPath, imported)
			case other.folder == in.folder || slices.Contains(in.may, other.folder):
			default:
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, in.allowance())
			}
		}
	}
}

// CONTRIBUTING.md says of each part what it has, and of no other folder but modules of their own.
func TestContributingHasAllFolders(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n| folder | contents |\n|---|---|\n")
	table, _, ends := strings.Cut(table, "\n\n")
	if !found || !ends {
		t.Fatal("CONTRIBUTING.md has no table of folders")
	}
	listed := map[string]bool{}
	for row := range strings.SplitSeq(table, "\n") {
		for i, folder := range strings.Split(strings.Split(row, "|")[1], "`") {
			if i%2 == 1 {
				listed[strings.TrimSuffix(folder, "/")] = true
			}
		}
	}
	for _, r := range parts {
		if !listed[r.folder] {
			t.Errorf("CONTRIBUTING.md does not have %s/", r.folder)
		}
		delete(listed, r.folder)
	}
	for folder := range listed {
		if _, err := os.Stat(filepath.Join(root(t), filepath.FromSlash(folder), "go.mod")); err != nil {
			t.Errorf("CONTRIBUTING.md has %s/, which is neither a part nor a module", folder)
		}
	}
}

func (r part) allowance() string {
	if len(r.may) == 0 {
		return r.folder + "/ may import nothing of the project"
	}
	return r.folder + "/ may import only " + strings.Join(r.may, "/, ") + "/ of the project"
}

// The router can be used without limits: of them it has no more than a field of its backend. No database comes with it.
func TestRouterDoesNotImportLimits(t *testing.T) {
	deps := list(t, "-deps", "./router")
	if len(deps) < 10 {
		t.Fatalf("go list -deps found %d packages", len(deps))
	}
	for _, p := range deps {
		for _, folder := range []string{"middleware", "adapters/redis", "adapters/cfdo", "examples"} {
			if within(p.ImportPath, module+"/"+folder) {
				t.Errorf("router depends on %s", p.ImportPath)
			}
		}
		if within(p.ImportPath, module+"/router") && slices.Contains(p.Imports, module+"/limit") {
			t.Errorf("%s imports limit", p.ImportPath)
		}
		if strings.HasPrefix(p.ImportPath, "github.com/redis/") {
			t.Errorf("router depends on %s", p.ImportPath)
		}
	}
}

// An application chooses its adapters: one must not import another, nor the router.
func TestAdaptersAreIndependent(t *testing.T) {
	for _, adapter := range list(t, "./adapters/...") {
		in, ok := partOf(adapter.ImportPath)
		if !ok {
			continue // reported above
		}
		for _, p := range list(t, "-deps", adapter.ImportPath) {
			for _, folder := range []string{"ingress", "router", "middleware", "adapters", "examples"} {
				if within(p.ImportPath, module+"/"+folder) && !within(p.ImportPath, module+"/"+in.folder) && p.ImportPath != module+"/adapters" {
					t.Errorf("%s depends on %s", adapter.ImportPath, p.ImportPath)
				}
			}
		}
	}
}

// A path of a developer's machine is useless to others, and may be private.
func TestNoFileNamesAMachinesPath(t *testing.T) {
	var paths []string
	for _, dir := range []string{"work", "root"} {
		paths = append(paths, "/"+dir+"/")
	}
	dir := root(t)
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		t.Skip("not a checkout")
	}
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	names := strings.Split(strings.Trim(string(out), "\x00"), "\x00")
	if len(names) < 10 {
		t.Fatalf("git lists %d files", len(names))
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // deleted and not committed yet, or a submodule
		}
		if bytes.IndexByte(content, 0) >= 0 {
			continue // not text
		}
		for n, line := range bytes.Split(content, []byte("\n")) {
			for _, path := range paths {
				if bytes.Contains(line, []byte(path)) {
					t.Errorf("%s:%d mentions %s", name, n+1, path)
				}
			}
		}
	}
}
