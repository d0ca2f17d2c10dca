package verify

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	_ "k8s.io/api" // for its testdata
	"sigs.k8s.io/yaml"
)

const deployExample = "../examples/deploy/"

// The manifests of examples/deploy have only members that Kubernetes has, and their parts and the program fit together.
func TestKubernetesManifests(t *testing.T) {
	text, err := os.ReadFile(deployExample + "kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, second, found := strings.Cut(string(text), "\n---\n")
	if !found {
		t.Fatal("kubernetes.yaml has one document, want two")
	}
	deployment, service := manifest(t, first), manifest(t, second)
	complete := map[string]any{"apps/v1 Deployment": completeObject(t, "apps.v1.Deployment"), "v1 Service": completeObject(t, "core.v1.Service")}
	for _, m := range []map[string]any{deployment, service} {
		kind := fmt.Sprint(m["apiVersion"], " ", m["kind"])
		if problem := differs(kind, m, complete[kind]); problem != "" {
			t.Error(problem)
		}
	}
	for _, misspelt := range []string{"readinessProbe:", "terminationGracePeriodSeconds:", "sleep:", "maxSurge:"} {
		wrong := manifest(t, strings.Replace(first, misspelt, "x"+misspelt, 1))
		if differs("", wrong, complete["apps/v1 Deployment"]) == "" {
			t.Errorf("x%s is accepted, or is not in the manifest", misspelt)
		}
	}

	pod := at(deployment, "spec", "template", "spec")
	container := at(pod, "containers", 0)
	labels := fmt.Sprint(at(deployment, "spec", "template", "metadata", "labels"))
	for _, selector := range []any{at(deployment, "spec", "selector", "matchLabels"), at(service, "spec", "selector")} {
		if fmt.Sprint(selector) != labels {
			t.Errorf("%v selects no pod with %v", selector, labels)
		}
	}
	port := at(container, "ports", 0, "containerPort")
	for _, other := range []any{at(container, "readinessProbe", "httpGet", "port"), at(service, "spec", "ports", 0, "targetPort")} {
		if other != port {
			t.Errorf("port %v is used of a container that has %v", other, port)
		}
	}

	// The program ends before Kubernetes kills it, and gets no connections when it ends.
	serve, err := os.ReadFile("../router/serve.go")
	if err != nil {
		t.Fatal(err)
	}
	drains := regexp.MustCompile(`serveDrainTime += (\d+) \* time\.Second`).FindStringSubmatch(string(serve))
	if drains == nil {
		t.Fatal("router/serve.go does not say how long Serve takes to end")
	}
	drain, err := strconv.ParseFloat(drains[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	preStop := at(container, "lifecycle", "preStop", "sleep", "seconds").(float64)
	if grace := at(pod, "terminationGracePeriodSeconds").(float64); grace <= preStop+drain {
		t.Errorf("Kubernetes kills the program after %v s, and it needs up to %v", grace, preStop+drain)
	}
	if period := at(container, "readinessProbe", "periodSeconds").(float64); preStop < period {
		t.Errorf("new connections stop after up to %v s, and the program refuses them after %v", period, preStop)
	}

	// Go frees memory before Kubernetes ends the program for using too much.
	soft, hard := at(container, "env", 0), at(container, "resources", "limits", "memory")
	if mebibytes(t, at(soft, "value")) >= mebibytes(t, hard) {
		t.Errorf("the container has %v, and %v", hard, soft)
	}
}

// manifest reads one document. A member that is there twice is an error.
func manifest(t *testing.T, text string) (m map[string]any) {
	t.Helper()
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err == nil {
		err = json.Unmarshal(asJSON, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// completeObject is an object of Kubernetes that has all members which there are. Kubernetes tests with it that no
// member is lost.
func completeObject(t *testing.T, kind string) (object any) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", kind+".json"))
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// numberOrName are the members that may be a number or a string. Complete objects have a string.
var numberOrName = map[string]bool{"maxUnavailable": true, "maxSurge": true, "port": true, "targetPort": true}

// differs returns how a value has a form that a complete one has not, or "".
func differs(path string, value, complete any) string {
	switch v := value.(type) {
	case map[string]any:
		members, ok := complete.(map[string]any)
		if !ok {
			return path + " is an object"
		}
		for name, member := range v {
			want, known := members[name]
			for only := range members { // a map whose keys are free has one, as labelsKey
				if len(members) == 1 && strings.HasSuffix(only, "Key") {
					want, known = members[only], true
				}
			}
			if !known {
				return path + "." + name + " is unknown"
			}
			if _, number := member.(float64); number && numberOrName[name] {
				continue
			}
			if problem := differs(path+"."+name, member, want); problem != "" {
				return problem
			}
		}
	case []any:
		items, ok := complete.([]any)
		if !ok {
			return path + " is a list"
		}
		for _, item := range v {
			if problem := differs(path+"[]", item, items[0]); problem != "" {
				return problem
			}
		}
	default:
		if got, want := fmt.Sprintf("%T", value), fmt.Sprintf("%T", complete); got != want {
			return fmt.Sprintf("%s is a %s, want a %s", path, got, want)
		}
	}
	return ""
}

// at follows names of members and places in lists.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			value = value.(map[string]any)[step]
		case int:
			value = value.([]any)[step]
		}
	}
	return value
}

// mebibytes reads a size of Go or of Kubernetes, as 900MiB or 1Gi.
func mebibytes(t *testing.T, size any) int {
	t.Helper()
	var n int
	var unit string
	if _, err := fmt.Sscanf(fmt.Sprint(size), "%d%s", &n, &unit); err != nil {
		t.Fatalf("%v: %v", size, err)
	}
	if strings.HasPrefix(unit, "Gi") {
		n *= 1024
	}
	return n
}
