package inspect

import (
	"crypto/rand"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/wskit/wskit/errors"
)

//go:embed static
var static embed.FS

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// reads are the queries that change nothing. All others are actions or begin a trace.
var reads = map[string]bool{"overview": true, "connections": true, "topics": true, "why": true, "entries": true, "inforce": true}

func (i *inspector) handler() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // static is not a valid path: cannot happen
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /api/{do}", i.serveRead)
	mux.Handle("POST /api/{do}", http.NewCrossOriginProtection().Handler(http.HandlerFunc(i.serveWrite)))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, req)
	})
}

// result is the answer to the page.
type result struct {
	Processes []answer `json:"processes"`
	// Missing are the processes that did not answer: their names, or "".
	Missing []string `json:"missing,omitzero"`
	// ID is that of a trace.
	ID string `json:"id,omitzero"`
	// Viewer says what the viewer may do.
	Actions  bool `json:"actions"`
	Payloads bool `json:"payloads"`
}

func (i *inspector) serveRead(w http.ResponseWriter, req *http.Request) {
	viewer, ok := i.authorized(w, req)
	if !ok {
		return
	}
	v := req.URL.Query()
	after, _ := strconv.Atoi(v.Get("after"))
	q := query{
		Do: req.PathValue("do"), Search: v.Get("search"), Tenant: v.Get("tenant"), User: v.Get("user"), IP: v.Get("ip"),
		Type: v.Get("type"), ID: v.Get("id"), After: max(0, after), Slow: v.Has("slow"),
		Viewer: viewer.Name, Payloads: viewer.Payloads,
	}
	if !reads[q.Do] {
		http.Error(w, "there is no such query", http.StatusNotFound)
		return
	}
	i.serve(w, req, viewer, q)
}

func (i *inspector) serveWrite(w http.ResponseWriter, req *http.Request) {
	viewer, ok := i.authorized(w, req)
	if !ok {
		return
	}
	if mediaType, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";"); mediaType != "application/json" {
		http.Error(w, "the body has to be application/json", http.StatusUnsupportedMediaType)
		return
	}
	var q query
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBody)).Decode(&q); err != nil {
		http.Error(w, "the body is not a query", http.StatusBadRequest)
		return
	}
	q.Do, q.Viewer, q.Payloads = req.PathValue("do"), viewer.Name, viewer.Payloads && q.Payloads
	switch {
	case q.Do == "trace":
		if q.Search == "" && q.User == "" && q.IP == "" {
			http.Error(w, "a trace is of a user, an address or a connection", http.StatusBadRequest)
			return
		}
		q.ID, q.Seconds = rand.Text(), max(1, min(q.Seconds, maxTraceSeconds))
		i.o.Logger.Info("inspect: trace", "viewer", viewer.Name, "tenant", q.Tenant, "user", q.User, "ip", q.IP,
			"conn", q.Search, "seconds", q.Seconds, "payloads", q.Payloads)
	case !isAction[q.Do]:
		http.Error(w, "there is no such action", http.StatusNotFound)
		return
	case !viewer.Actions:
		http.Error(w, "you may not change anything", http.StatusForbidden)
		return
	case i.changed(q):
		http.Error(w, errChanged.Error(), http.StatusConflict)
		return
	default:
		i.logAction(q)
	}
	i.serve(w, req, viewer, q)
}

func (i *inspector) logAction(q query) {
	i.o.Logger.Warn("inspect: action", "viewer", q.Viewer, "action", q.Do, "tenant", q.Tenant, "user", q.User,
		"ip", q.IP, "conn", q.ID, "topics", q.Topics, "seconds", q.Seconds)
}

// authorized answers the requests that may not pass.
func (i *inspector) authorized(w http.ResponseWriter, req *http.Request) (Viewer, bool) {
	viewer, err := i.o.Authorize(req)
	switch {
	case err == nil:
		return viewer, true
	case errors.CodeOf(err) == errors.PermissionDenied:
		http.Error(w, "you may not see this", http.StatusForbidden)
	default:
		if i.o.LoginURL != "" {
			w.Header().Set("Wskit-Login", i.o.LoginURL)
		}
		http.Error(w, "log in first", http.StatusUnauthorized)
	}
	return Viewer{}, false
}

func (i *inspector) serve(w http.ResponseWriter, req *http.Request, viewer Viewer, q query) {
	for _, s := range []string{q.Search, q.Tenant, q.User, q.IP, q.Type, q.ID, q.Topics, q.Base} {
		if len(s) > maxName {
			http.Error(w, "a name is too long", http.StatusBadRequest)
			return
		}
	}
	select {
	case i.busy <- struct{}{}:
		defer func() { <-i.busy }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		return
	}
	r := result{ID: q.ID, Actions: viewer.Actions, Payloads: viewer.Payloads}
	r.Processes, r.Missing = i.peers.ask(req.Context(), q)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // else the page is gone
}
