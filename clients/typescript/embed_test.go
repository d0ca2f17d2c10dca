package wskitjs_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	wskitjs "github.com/wskit/wskit/clients/typescript"
)

// Each file has its own name, and what no file is named gets the client.
func TestHandler(t *testing.T) {
	const module, text = "text/javascript; charset=utf-8", "text/plain; charset=utf-8"
	for path, want := range map[string]struct{ file, contentType string }{
		"/wskit.js": {"wskit.js", module}, "/limits.js": {"limits.js", module}, "/lib/keep.js": {"keep.js", module},
		"/run.js": {"run.js", module}, "/react.js": {"react.js", module}, "/dev.js": {"dev.js", module},
		"/client": {"wskit.js", module}, "/wskit.d.ts": {"wskit.d.ts", text}, "/lib/keep.d.ts": {"keep.d.ts", text},
		"/lib/": {"wskit.js", module}, "/package.json": {"wskit.js", module},
	} {
		t.Run(path, func(t *testing.T) { testHandler(t, path, "dist/"+want.file, want.contentType) })
	}
}

func testHandler(t *testing.T, path, file, contentType string) {
	built, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(wskitjs.Handler())
	defer server.Close()

	get := func(etag string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if etag != "" {
			req.Header.Set("If-None-Match", etag)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(body)
	}

	res, body := get("")
	if res.StatusCode != http.StatusOK || body != string(built) {
		t.Errorf("status %d, %d bytes; want %s, %d bytes", res.StatusCode, len(body), file, len(built))
	}
	// Browsers refuse modules of another type.
	if got := res.Header.Get("Content-Type"); got != contentType {
		t.Errorf("Content-Type is %q", got)
	}
	if res.Header.Get("Cache-Control") != "no-cache" {
		t.Error("a browser may use an old client without asking")
	}
	if res, body := get(res.Header.Get("ETag")); res.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("a browser that has the file gets status %d and %d bytes", res.StatusCode, len(body))
	}
}
