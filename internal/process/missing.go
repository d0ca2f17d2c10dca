package process

import (
	"os"
	"testing"
)

// Missing ends a test that cannot run because something is not installed: in CI (CI=true) it fails, elsewhere it is
// skipped.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}
