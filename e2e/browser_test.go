package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/wskit/wskit/internal/poll"
)

// browsers are the names under which systems install a browser that will do.
var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

// Set up once for all tests.
var (
	browser    context.Context // a running browser; nil when there is none
	noBrowser  error           // why there is none
	exampleDir string          // where the examples are, built
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "wskit-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)

	path, err := findBrowser()
	if err != nil {
		if os.Getenv("CI") == "true" {
			return 0, fmt.Errorf("%w (CI=true: this is a failure)", err)
		}
		noBrowser = err
		return m.Run(), nil
	}
	exampleDir = dir
	if err = buildExamples(dir, examples()...); err != nil {
		return 0, err
	}
	var stop func()
	if browser, stop, err = startBrowser(path, filepath.Join(dir, "profile")); err != nil {
		return 0, fmt.Errorf("starting %s: %w", path, err)
	}
	defer stop()
	return m.Run(), nil
}

// examples are those that tests run.
func examples() []string {
	if testing.Short() {
		return []string{"chat"}
	}
	return []string{"chat", "board", "assistant"}
}

func findBrowser() (string, error) {
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium on the PATH: make e2e installs it")
}

func startBrowser(path, profile string) (context.Context, func(), error) {
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path),
		chromedp.WSURLReadTimeout(poll.Guard),
		chromedp.UserDataDir(profile),
		chromedp.Headless,
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	ctx, stop := chromedp.NewContext(allocator)
	stopAll := func() {
		_ = chromedp.Cancel(ctx) // waits until the browser is gone
		stop()
		stopAllocator()
	}
	if err := chromedp.Do(ctx); err != nil {
		stopAll()
		return nil, nil, err
	}
	return ctx, stopAll, nil
}

// nightly skips a test with -short, as make test runs this package: it has the chat and the program of the README.
func nightly(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make nightly runs it")
	}
}

// needBrowser skips the test, and says why, where there is no browser.
func needBrowser(t *testing.T) {
	t.Helper()
	if noBrowser != nil {
		t.Skipf("NOT TESTED: %v", noBrowser)
	}
}
