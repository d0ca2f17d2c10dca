package wskitjs_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	wskitjs "github.com/wskit/wskit/clients/typescript"
)

func TestHandler(t *testing.T) {
	t.Run("wskit.js", func(t *testing.T) { testHandler(t, wskitjs.Handler(), "dist/wskit.js") })
	t.Run("limits.js", func(t *testing.T) { testHandler(t, wskitjs.LimitsHandler(), "dist/limits.js") })
}

func testHandler(t *testing.T, h http.Handler, file string) {
	built, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/wskit.js", h)
	server := httptest.NewServer(mux)
	defer server.Close()

	get := func(etag string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/wskit.js", nil)
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
	if got := res.Header.Get("Content-Type"); got != "text/javascript; charset=utf-8" {
		t.Errorf("Content-Type is %q", got)
	}
	if res.Header.Get("Cache-Control") != "no-cache" {
		t.Error("a browser may use an old client without asking")
	}
	if res, body := get(res.Header.Get("ETag")); res.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("a browser that has the file gets status %d and %d bytes", res.StatusCode, len(body))
	}
}
