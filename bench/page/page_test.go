package page

import "testing"

func TestSectionsAreReplacedAlone(t *testing.T) {
	one := replace("", "Servers", "old\n")
	two := replace(one, "Limits", "a\n\n### b\n\nc")
	three := replace(two, "Servers", "new")
	want := head + "\n## Servers\n\nnew\n\n## Limits\n\na\n\n### b\n\nc\n"
	if three != want {
		t.Errorf("%q, want %q", three, want)
	}
	if again := replace(three, "Limits", "a\n\n### b\n\nc"); again != want {
		t.Errorf("writing the same again changes the page: %q", again)
	}
}
