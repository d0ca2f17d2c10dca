package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wskit/wskit/router/routertest"
)

func TestNoticesReachAllDevices(t *testing.T) {
	handler, r := newHandler("secret")
	s := routertest.New(t, r)
	phone, laptop, bob := s.Dial(routertest.DialOptions{Token: "ann"}), s.Dial(routertest.DialOptions{Token: "ann"}), s.Dial(routertest.DialOptions{Token: "bob"})
	post := func(secret, body string) int {
		req := httptest.NewRequest(http.MethodPost, "/notify", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		return w.Code
	}
	if code := post("secret", `{"user":"ann","text":"sent"}`); code != http.StatusNoContent {
		t.Errorf("answered %d", code)
	}
	for _, c := range []*routertest.Client{phone, laptop} {
		if n := routertest.ExpectEvent[Notice](c, "notice"); n.Text != "sent" {
			t.Errorf("got %v", n)
		}
	}
	for body, want := range map[string]int{`{"user":"","text":"x"}`: 400, `{`: 400, `{"text":"` + strings.Repeat("x", 70<<10) + `"}`: 400} {
		if code := post("secret", body); code != want {
			t.Errorf("%.30s is answered %d, want %d", body, code, want)
		}
	}
	if code := post("guess", `{"user":"ann","text":"sent"}`); code != http.StatusUnauthorized {
		t.Errorf("a wrong secret is answered %d", code)
	}
	if f := bob.Frames(); len(f) > 0 {
		t.Errorf("bob got %v", f)
	}
}
