package docs_test

import (
	"strings"
	"testing"
)

// Every line that the packages log is in observability.md, up to the first sign that joins two parts of it.
func TestLogLinesAreDocumented(t *testing.T) {
	doc := read(t, "observability.md")
	lines := 0
	for _, s := range texts(t) {
		if !s.log || !strings.Contains(s.text, ": ") {
			continue
		}
		lines++
		text, _, _ := strings.Cut(s.text, ";")
		text, _, _ = strings.Cut(text, "…")
		if text = strings.TrimSuffix(strings.TrimSpace(text), ":"); !strings.Contains(doc, text) {
			t.Errorf("%s: the log line %q is not in observability.md", s.place, s.text)
		}
	}
	if lines < 20 {
		t.Errorf("only %d log lines were found", lines)
	}
}
