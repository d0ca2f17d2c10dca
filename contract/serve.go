package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"path"
	"time"
)

// ServeHTTP serves the documents by the last part of the path: contract.d.ts, schema.json and
// asyncapi.json. They have an ETag. They are not secret, but they say all that clients can do:
// where not every client may see that, put the handler behind your authentication.
func (c *Contract) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	var document []byte
	media := "application/json"
	switch name {
	case "contract.d.ts":
		document, media = c.typescript, "text/plain; charset=utf-8" // there is no type for TypeScript
	case "schema.json":
		document, media = c.schema, "application/schema+json"
	case "asyncapi.json":
		document, media = c.asyncapi, "application/vnd.aai.asyncapi+json;version=3.0.0"
	default:
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	sum := sha256.Sum256(document)
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache") // to be compared by its ETag
	h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(document))
}
