package docs_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The unit, the container file and the manifests on the page are the files of examples/deploy, which tests run and check.
func TestDeploymentPageHasTheFilesOfTheExample(t *testing.T) {
	page := read(t, "deployment.md")
	var languages []string
	for _, m := range regexp.MustCompile("(?ms)^```(ini|dockerfile|yaml)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		languages = append(languages, m[1])
		file := map[string]string{"ini": "chat.service", "dockerfile": "Dockerfile", "yaml": "kubernetes.yaml"}[m[1]]
		if read(t, "../examples/deploy/"+file) != m[2] {
			t.Errorf("the page has another %s than examples/deploy", file)
		}
	}
	if want := []string{"ini", "dockerfile", "yaml"}; !slices.Equal(languages, want) {
		t.Errorf("the page has files of the kinds %v", languages)
	}
	if fences := strings.Count(page, "\n```"); fences != 2*(len(languages)+2) {
		t.Errorf("the page has a block that this test does not look at: %d fences", fences)
	}
}

// The times on the page fit together: each system waits longer than what it waits for. Module verify compares those of
// Kubernetes.
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
	drain := seconds(page, `WithTimeout\(context\.Background\(\), (\d+)\*time\.Second\)`)
	if stop := seconds(page, `TimeoutStopSec=(\d+)`); stop <= drain {
		t.Errorf("systemd kills the server after %d s, and it needs up to %d", stop, drain)
	}
	preStop, grace := seconds(page, `sleep: \{ seconds: (\d+) \}`), seconds(page, `terminationGracePeriodSeconds: (\d+)`)
	if grace <= preStop+drain {
		t.Errorf("Kubernetes kills the server after %d s, and it needs up to %d", grace, preStop+drain)
	}
	if said := seconds(page, `After (\d+) s, which is longer`); said != grace {
		t.Errorf("the page says %d s, and the manifest %d", said, grace)
	}
	if period := seconds(page, `periodSeconds: (\d+)`); preStop < period {
		t.Errorf("new connections stop after up to %d s, and the server refuses them after %d", period, preStop)
	}
	if idle := seconds(read(t, "nginx.conf"), `proxy_read_timeout (\d+)s`); idle <= 25 {
		t.Errorf("nginx ends silent connections after %d s, before the ping at 25", idle)
	}
}
