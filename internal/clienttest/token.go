package clienttest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// TokenMode says what GET /token does.
type TokenMode struct {
	// Mode is "ok", "fail" (500), "refuse" (401), "drop" (the connection is reset), "hang" (until another mode is
	// set), "garbage" (no JSON) or "bad" (a token that the server refuses). Default: ok.
	Mode   string `json:"mode"`
	User   string `json:"user"`   // for requests without one; default: ann
	TTLMs  int    `json:"ttlMs"`  // the life of tokens; default: for ever
	WaitMs int    `json:"waitMs"` // before the answer
}

// tokens is the token endpoint.
type tokens struct {
	mu      sync.Mutex
	mode    TokenMode
	changed chan struct{} // closed when the mode changes
	serial  int
}

// Token sets what GET /token does.
func (s *Server) Token(m TokenMode) error {
	switch m.Mode {
	case "", "ok", "fail", "refuse", "drop", "hang", "garbage", "bad":
	default:
		return fmt.Errorf("there is no mode %q", m.Mode)
	}
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	s.tokens.mode = m
	s.tokens.change()
	return nil
}

// end ends requests that hang.
func (t *tokens) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mode = TokenMode{Mode: "fail"}
	t.change()
}

func (t *tokens) change() {
	if t.changed != nil {
		close(t.changed)
	}
	t.changed = make(chan struct{})
}

// NewToken returns a token of a user.
func (s *Server) NewToken(user string, ttl time.Duration) string { return s.tokens.issue(user, ttl) }

func (t *tokens) issue(user string, ttl time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serial++
	expires := int64(0)
	if ttl > 0 {
		expires = time.Now().Add(ttl).UnixMilli()
	}
	return fmt.Sprintf("%s.%d.%d", user, expires, t.serial)
}

// verify returns the identity of a token.
func verify(token string) (id ingress.Identity, err error) {
	if strings.HasPrefix(token, "bad") {
		return id, errors.Unauthenticated.New("the token is not valid")
	}
	parts := strings.Split(token, ".")
	id.User = parts[0]
	if len(parts) == 3 {
		expires, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return id, errors.Unauthenticated.New("the token is not valid")
		}
		if expires > 0 {
			id.ExpiresAt = time.UnixMilli(expires)
		}
	}
	return id, nil
}

func (s *Server) authenticate(r *http.Request) (ingress.Identity, error) {
	token := ingress.Token(r)
	if token == "" && s.o.NeedToken {
		return ingress.Identity{}, errors.Unauthenticated.New("there is no token")
	}
	id, err := verify(token)
	if err == nil {
		s.opening.Add(1)
	}
	return id, err
}

func (s *Server) renew(_ context.Context, _ *router.Conn, token string) (ingress.Identity, error) {
	return verify(token)
}

// serveToken is GET /token.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	t := &s.tokens
	t.mu.Lock()
	mode := t.mode
	if t.changed == nil {
		t.change()
	}
	changed := t.changed
	t.mu.Unlock()
	s.record.token(mode.Mode)
	if !pause(milliseconds(mode.WaitMs), r.Context().Done()) {
		return
	}
	switch mode.Mode {
	case "fail":
		http.Error(w, "as asked", http.StatusInternalServerError)
	case "refuse":
		http.Error(w, "as asked", http.StatusUnauthorized)
	case "drop":
		panic(http.ErrAbortHandler)
	case "hang":
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case "garbage":
		_, _ = w.Write([]byte("<html>"))
	default:
		user := cmp.Or(r.URL.Query().Get("user"), mode.User, "ann")
		if mode.Mode == "bad" {
			user = "bad"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"token": t.issue(user, milliseconds(mode.TTLMs))})
	}
}
