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
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed dist
var dist embed.FS

// file is one of dist, as it is served.
type file struct {
	content     []byte
	etag        string
	contentType string
}

// files has what is in dist, by name.
var files = sync.OnceValue(func() map[string]file {
	entries, err := dist.ReadDir("dist")
	if err != nil {
		panic(err) // it is embedded
	}
	all := make(map[string]file)
	for _, entry := range entries {
		content, err := dist.ReadFile("dist/" + entry.Name())
		if err != nil {
			panic(err)
		}
		f := file{content, fmt.Sprintf(`"%x"`, sha256.Sum256(content)), "text/javascript; charset=utf-8"}
		if strings.HasSuffix(entry.Name(), ".ts") {
			f.contentType = "text/plain; charset=utf-8"
		}
		all[entry.Name()] = f
	}
	return all
})

// Handler serves the file that the end of a request's path names: wskit.js, the client as a JavaScript module;
// limits.js, which has followLimits; keep.js, which has keep; run.js, which has start and attach; react.js, whose page says by an import map where "react"
// is; dev.js, for development; or the declarations of one for editors, such as wskit.d.ts. Other paths get wskit.js.
// Browsers cache the files, and validate them again each time.
func Handler() http.Handler {
	files := files()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[path.Base(r.URL.Path)]
		if !ok {
			f = files["wskit.js"]
		}
		h := w.Header()
		h.Set("Content-Type", f.contentType)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", f.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}
