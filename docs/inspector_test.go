package docs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
	"github.com/wskit/wskit/router"
)

// The code of inspector.md.

type admin struct {
	Name      string
	MayChange bool
}

// adminSessions stands for the sessions of an application.
type adminSessions map[string]admin

func (s adminSessions) Admin(req *http.Request) (admin, error) {
	c, err := req.Cookie("session")
	if err != nil {
		return admin{}, err
	}
	a, ok := s[c.Value]
	if !ok {
		return admin{}, http.ErrNoCookie
	}
	return a, nil
}

func TestInspectorPage(t *testing.T) {
	sessions := adminSessions{"s1": {Name: "ann"}, "s2": {Name: "bob", MayChange: true}}
	document, err := rules.Parse([]byte(`{"default": {"perMinute": 60, "burst": 5}}`))
	if err != nil {
		t.Fatal(err)
	}
	limits, err := rules.New(memory.NewStore(), document)
	if err != nil {
		t.Fatal(err)
	}
	r := router.New()
	mux := http.NewServeMux()
	mux.Handle("/inspect/", http.StripPrefix("/inspect", inspect.Handler(r, inspect.Options{
		Authorize: func(req *http.Request) (inspect.Viewer, error) {
			admin, err := sessions.Admin(req) // by a cookie: HttpOnly, Secure, SameSite=Strict
			if err != nil {
				return inspect.Viewer{}, errors.Unauthenticated.New("log in first")
			}
			return inspect.Viewer{Name: admin.Name, Actions: admin.MayChange}, nil
		},
		LoginURL: "/login", // a page of the application that sets the cookie and comes back
		Rules:    limits,
	})))
	for session, want := range map[string]int{"": http.StatusUnauthorized, "x": http.StatusUnauthorized, "s1": http.StatusOK, "s2": http.StatusOK} {
		req := httptest.NewRequest(http.MethodGet, "/inspect/api/overview", nil)
		if session != "" {
			req.AddCookie(&http.Cookie{Name: "session", Value: session})
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("with session %q: %d, want %d", session, w.Code, want)
		}
	}
}
