package closereason_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/closereason"
)

func TestReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wait    time.Duration
		message string
		want    string
	}{
		{0, "", ""},
		{closereason.Never, "", `{"retryAfterMs":null}`},
		{1500 * time.Microsecond, "", `{"retryAfterMs":2}`},
		{0, "come back", `{"message":"come back"}`},
		{closereason.Never, `your "account" is suspended`, `{"retryAfterMs":null,"message":"your \"account\" is suspended"}`},
	} {
		if got := closereason.Of(c.wait, c.message); got != c.want {
			t.Errorf("%v, %q: %s, want %s", c.wait, c.message, got, c.want)
		}
	}
}

// A message of any length and text becomes JSON that fits into the frame, with the beginning of the message.
func TestReasonsFit(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "é", "\"", "\x00", "<", "😀", "\xff"} {
		for n := range 200 {
			message := strings.Repeat(unit, n)
			got := closereason.Of(closereason.Never, message)
			var read struct{ Message string }
			if err := json.Unmarshal([]byte(got), &read); err != nil || len(got) > closereason.Max {
				t.Fatalf("%d times %q: %d bytes, %v: %s", n, unit, len(got), err, got)
			}
			if valid := strings.ToValidUTF8(message, "\ufffd"); !strings.HasPrefix(valid, read.Message) && unit != "\xff" {
				t.Fatalf("%d times %q became %q", n, unit, read.Message)
			}
			if n > 0 && n < 10 && read.Message == "" {
				t.Fatalf("%d times %q is left out", n, unit)
			}
		}
	}
}
