package cfdo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/process"
	"github.com/wskit/wskit/internal/workerdtest"
)

// The Worker's own tests, which run on the runtime: among them the published
// vectors, field by field.
func TestWorker(t *testing.T) {
	t.Parallel()
	workerdtest.Test(t, "unit.capnp")
}

// What wrangler would upload, with the configuration that is in the repository.
func TestWranglerDryRun(t *testing.T) {
	t.Parallel()
	modules := workerdtest.Modules(t)
	node, err := exec.LookPath("node")
	if err != nil {
		process.Missing(t, "node is not on the PATH; wrangler needs one")
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(modules, "wrangler", "bin", "wrangler.js"),
		"deploy", "--dry-run", "--outdir", t.TempDir())
	cmd.Dir = workerdtest.Folder(t)
	cmd.Env = append(os.Environ(), "WRANGLER_SEND_METRICS=false", "WRANGLER_LOG_PATH="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "CI=true")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"env.LIMITS (Limits)", "env.SHARDS (128)", "env.TENANT_SHARDS"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("wrangler does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "WARNING") {
		t.Errorf("wrangler warns:\n%s", out)
	}
}

// The dry run does not look whether a class that is migrated is there.
func TestMigratedClassIsExported(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(workerdtest.Folder(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	config, index := read("wrangler.jsonc"), read("src/index.js")
	classes := regexp.MustCompile(`"new_sqlite_classes": \["(\w+)"\]`).FindStringSubmatch(config)
	if classes == nil {
		t.Fatal("wrangler.jsonc migrates no class to SQLite")
	}
	if !strings.Contains(index, "export { "+classes[1]+" }") || !strings.Contains(config, `"class_name": "`+classes[1]+`"`) {
		t.Errorf("src/index.js does not export %s, or it is not bound", classes[1])
	}
	date := regexp.MustCompile(`"compatibility_date": "([\d-]+)"`).FindStringSubmatch(config)
	for _, tested := range []string{"test/serve.capnp", "test/unit.capnp", "test/production.capnp"} {
		if date == nil || !strings.Contains(read(tested), `compatibilityDate = "`+date[1]+`"`) {
			t.Errorf("%s is not tested at the date that is deployed", tested)
		}
	}
}

// Every module that is deployed is one that the tests run.
func TestEveryModuleIsTested(t *testing.T) {
	t.Parallel()
	folder := workerdtest.Folder(t)
	modules, err := filepath.Glob(filepath.Join(folder, "src", "*.js"))
	if err != nil || len(modules) < 10 {
		t.Fatalf("%d modules, %v", len(modules), err)
	}
	config, err := os.ReadFile(filepath.Join(folder, "test", "production.capnp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range modules {
		if !strings.Contains(string(config), `embed "../src/`+filepath.Base(module)+`"`) {
			t.Errorf("test/production.capnp lacks %s", filepath.Base(module))
		}
	}
}
