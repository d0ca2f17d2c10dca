package docs_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The page refers to the unit, the container file and the manifests of examples/deploy, which tests run and check, and
// shows no other ones.
func TestDeploymentPageRefersToTheFilesOfTheExample(t *testing.T) {
	page := read(t, "deployment.md")
	for _, file := range []string{"chat.service", "Dockerfile", "kubernetes.yaml"} {
		if !strings.Contains(page, "("+deployExample+file+")") {
			t.Errorf("the page has no link to %s", file)
		}
	}
	if all, inGo := strings.Count(page, "\n```"), strings.Count(page, "\n```go\n"); inGo != 2 || all != 2*inGo {
		t.Errorf("the page has a block that no test looks at: %d fences, %d blocks of Go", all, inGo)
	}
}

const deployExample = "../examples/deploy/"

// The times of the page and of the files fit together: each system waits longer than what it waits for. Module verify
// compares those of Kubernetes.
func TestDeploymentPageTimes(t *testing.T) {
	page := read(t, "deployment.md")
	seconds := func(text, pattern string) int {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no %s", pattern)
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	drain := seconds(read(t, "../router/serve.go"), `serveDrainTime += (\d+) \* time\.Second`)
	if said := seconds(page, `takes at most (\d+) s`); said != drain {
		t.Errorf("the page says %d s, and Serve takes up to %d", said, drain)
	}
	if stop := seconds(read(t, deployExample+"chat.service"), `TimeoutStopSec=(\d+)`); stop <= drain {
		t.Errorf("systemd kills the server after %d s, and it needs up to %d", stop, drain)
	}
	manifests := read(t, deployExample+"kubernetes.yaml")
	preStop, grace := seconds(manifests, `sleep: \{ seconds: (\d+) \}`), seconds(manifests, `terminationGracePeriodSeconds: (\d+)`)
	if grace <= preStop+drain {
		t.Errorf("Kubernetes kills the server after %d s, and it needs up to %d", grace, preStop+drain)
	}
	if said := seconds(page, `After (\d+) s, which is longer`); said != grace {
		t.Errorf("the page says %d s, and the manifest %d", said, grace)
	}
	if period := seconds(manifests, `periodSeconds: (\d+)`); preStop < period {
		t.Errorf("new connections stop after up to %d s, and the server refuses them after %d", period, preStop)
	}
	if idle := seconds(read(t, "nginx.conf"), `proxy_read_timeout (\d+)s`); idle <= 25 {
		t.Errorf("nginx ends silent connections after %d s, before the ping at 25", idle)
	}
}
