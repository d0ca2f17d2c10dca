package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// Every line that the packages log is in the table of lines, up to a semicolon. "…" stands for any text.
func TestLogLinesAreDocumented(t *testing.T) {
	_, doc, found := strings.Cut(read(t, "troubleshooting/logs.md"), "\n| line | level |")
	doc, _, ends := strings.Cut(doc, "\n\n")
	if !found || !ends {
		t.Fatal("there is no table of lines")
	}
	lines := 0
	for _, s := range texts(t) {
		if !s.log || !strings.Contains(s.text, ": ") {
			continue
		}
		lines++
		text, _, _ := strings.Cut(s.text, ";")
		text = strings.TrimRight(text, ": …") // an error at its end is not in the table
		line := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(text), "…", "[^`\n]*"))
		if !line.MatchString(doc) {
			t.Errorf("%s: the log line %q is not in the table of docs/troubleshooting/logs.md", s.place, s.text)
		}
	}
	if lines < 20 {
		t.Errorf("only %d log lines were found", lines)
	}
}
