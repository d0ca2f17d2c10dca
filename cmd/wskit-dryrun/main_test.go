package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const log = `{"time": "2026-11-22T15:00:00Z", "tenant": "acme", "user": "ann", "type": "chat"}
{"time": "2026-11-22T15:00:01Z", "tenant": "acme", "user": "ann", "type": "chat"}
{"time": "2026-11-22T15:00:02Z", "tenant": "acme", "user": "ann", "type": "edit"}
`

func dryRun(t *testing.T, rules string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := run(append([]string{"-rules", file}, args...), strings.NewReader(log), &out)
	return out.String(), err
}

func TestDryRun(t *testing.T) {
	const rules = `{"default": {"perHour": 1, "burst": 1}}`
	for _, c := range []struct {
		rules string
		args  []string
		says  string // in the output or the error
	}{
		{rules, nil, "3 messages: 1 refused"},
		{rules, nil, "acme/ann"},
		{rules, nil, "default.perHour"},
		{rules, []string{"-key", "user"}, "3 messages: 2 refused"},
		{rules, []string{"-key", "user", "-rows", "1"}, "and 1 more"},
		{rules, []string{"-json"}, `"Refused": 1`},
		{rules, []string{"-key", "room"}, "it must be user-type, user, ip, tenant or global"},
		{`{"default": {"perHour": 1}}`, nil, "default.burst is missing"},
		{rules, []string{"-rules", ""}, "-rules is missing"},
	} {
		out, err := dryRun(t, c.rules, c.args...)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, c.says) {
			t.Errorf("%v: %q is not in\n%s", c.args, c.says, out)
		}
	}
}
