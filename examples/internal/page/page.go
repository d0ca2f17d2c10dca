// Package page serves the pages of the examples.
package page

import (
	"io/fs"
	"net/http"
)

// contentPolicy lets the page use only this server, and forbids frames around it.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the files of the folder static.
func Handler(embedded fs.FS) http.Handler {
	files, err := fs.Sub(embedded, "static")
	if err != nil {
		panic(err) // static is not a valid path: cannot happen
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // another build may have another page
		server.ServeHTTP(w, r)
	})
}
