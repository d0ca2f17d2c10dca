// Package wskitjs serves the TypeScript client, built, so that a page can import it without npm:
//
//	mux.Handle("/wskit.js", wskitjs.Handler())
//
// and in the page
//
//	<script type="module">
//	  import { connect } from "/wskit.js";
//	  const client = connect({ url: "/ws" });
//	</script>
//
// README.md in this folder is its documentation.
package wskitjs

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"net/http"
	"time"
)

//go:embed dist/wskit.js
var script []byte

//go:embed dist/limits.js
var limits []byte

// Handler serves the client as a JavaScript module, whatever the path. Browsers cache it, and
// validate it again each time.
func Handler() http.Handler { return module("wskit.js", script) }

// LimitsHandler serves the module with followLimits, as Handler does the client.
func LimitsHandler() http.Handler { return module("limits.js", limits) }

func module(name string, script []byte) http.Handler {
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(script))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", etag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(script))
	})
}
