package client_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/wskit/wskit/client"
)

// The reason of a close is quoted once in a log, on one line, and an empty one is left out.
func TestCloseErrorInALog(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		`{"retryAfterMs":null}`: `with 4403 {\"retryAfterMs\":null}"`,
		"going\naway\x1b[1m":    `with 4403 goingaway[1m"`,
		"":                      `with 4403"`,
	} {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("closed", "error", &client.CloseError{Code: 4403, Reason: reason})
		if line := strings.TrimSpace(log.String()); !strings.HasSuffix(line, want) {
			t.Errorf("the line is %s", line)
		}
	}
}
