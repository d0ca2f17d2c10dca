package router_test

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// diary is a gate that writes down what it is asked.
type diary struct {
	mu           sync.Mutex
	lines        []string
	admit, ident error
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

func (d *diary) Admit(*http.Request, netip.Addr) (ingress.Admission, error) {
	d.write("admit")
	if d.admit != nil {
		return nil, d.admit
	}
	return d, nil
}

func (d *diary) Identify(_ context.Context, id *ingress.Identity) error {
	d.write("identify " + id.User)
	return d.ident
}

func (d *diary) Release() { d.write("release") }

// A gate admits after the check of the origin and before authentication, gets the identity before
// the upgrade, and is released once at the end.
func TestGate(t *testing.T) {
	t.Parallel()
	full := &ingress.Refusal{Err: &errors.LimitExceeded{Kind: errors.LimitConnection, RetryAfter: time.Second}, Status: 503}
	for _, c := range []struct {
		name   string
		gate   *diary
		auth   error
		send   []string
		status int
		want   []string
	}{
		{"let in", &diary{}, nil, nil, 101, []string{"admit", "authenticate", "identify ann", "release"}},
		{"turned away", &diary{admit: full}, nil, nil, 503, []string{"admit"}},
		{"turned away by an error", &diary{admit: errors.Unavailable.New("no")}, nil, nil, 503, []string{"admit"}},
		{"not authenticated", &diary{}, errors.Unauthenticated.New("no"), nil, 401, []string{"admit", "authenticate", "release"}},
		{"turned away when known", &diary{ident: full}, nil, nil, 503, []string{"admit", "authenticate", "identify ann", "release"}},
		{"a foreign page", &diary{}, nil, []string{"Origin: http://evil.example"}, 403, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serveSocket(t, router.Options{Gate: c.gate, Authenticate: func(*http.Request) (ingress.Identity, error) {
				c.gate.write("authenticate")
				return ingress.Identity{User: "ann"}, c.auth
			}}, nil)
			p := s.connect()
			p.write([]byte(s.handshake(c.send...)))
			if res := p.response(); res.StatusCode != c.status {
				t.Fatalf("answered %s, want %d", res.Status, c.status)
			}
			p.hangUp()
			s.settled()
			eventually(t, "the calls of the gate", func() bool { return len(c.gate.read()) >= len(c.want) })
			if got := c.gate.read(); !slices.Equal(got, c.want) {
				t.Errorf("the gate saw %q, want %q", got, c.want)
			}
		})
	}
}

// flushingGate is a gate that releases in the background what connections held.
type flushingGate struct {
	diary
	late bool // Flush came when its context had ended
}

func (g *flushingGate) Flush(ctx context.Context) error {
	g.write("flush")
	g.late = ctx.Err() != nil
	return nil
}

// Shutdown waits until the gate has released what connections held, those included
// that are cut off because the time is over.
func TestShutdownFlushesTheGate(t *testing.T) {
	t.Parallel()
	shutsDown := func(t *testing.T, r *router.Router, gate *flushingGate, within time.Duration, want error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if err := r.Shutdown(ctx); err != want {
			t.Errorf("Shutdown: %v, want %v", err, want)
		}
		if got, want := gate.read(), []string{"admit", "identify ", "release", "flush"}; !slices.Equal(got, want) {
			t.Errorf("the gate saw %q, want %q", got, want)
		}
		if gate.late {
			t.Error("there is no time left to release anything")
		}
	}
	t.Run("in good order", func(t *testing.T) {
		gate := &flushingGate{}
		s := serveSocket(t, router.Options{Gate: gate}, nil)
		p := s.connect()
		p.write([]byte(s.handshake()))
		p.response()
		eventually(t, "the connection to be open", func() bool { return s.r.Stats().Connections == 1 })
		p.hangUp()
		shutsDown(t, s.r, gate, patience, nil)
	})
	t.Run("cut off", func(t *testing.T) {
		gate := &flushingGate{}
		inMemory(t, router.Options{Gate: gate}, func(r *router.Router) {
			router.RPC(r, "wait", func(c *router.Context, _ struct{}) (struct{}, error) { <-c.Done(); return struct{}{}, c.Err() })
		}, func(t *testing.T, r *router.Router, c *routertest.Client) {
			c.Request("wait", nil)
			synctest.Wait()
			shutsDown(t, r, gate, time.Second, context.DeadlineExceeded)
		})
	})
}

// Shutdown waits for handshakes that it finds under way: they could open a connection
// after it.
func TestShutdownWaitsForHandshakes(t *testing.T) {
	t.Parallel()
	gate := &flushingGate{}
	entered, goOn := make(chan struct{}), make(chan struct{})
	s := serveSocket(t, router.Options{Gate: gate, Authenticate: func(*http.Request) (ingress.Identity, error) {
		close(entered)
		<-goOn
		return ingress.Identity{}, nil
	}}, nil)
	p := s.connect()
	p.write([]byte(s.handshake()))
	<-entered
	done := make(chan error, 1)
	go func() { done <- s.r.Shutdown(t.Context()) }()
	eventually(t, "the router to drain", func() bool {
		other := s.connect()
		other.write([]byte(s.handshake("Content-Length: 9"))) // which is never shown to the gate
		return other.response().StatusCode == http.StatusServiceUnavailable
	})
	select {
	case err := <-done:
		close(goOn)
		t.Fatalf("Shutdown returned %v while a handshake is under way", err)
	default:
	}
	close(goOn)
	p.response()
	p.hangUp()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, want := gate.read(), []string{"admit", "identify ", "release", "flush"}; !slices.Equal(got, want) {
		t.Errorf("the gate saw %q, want %q", got, want)
	}
}

// A hook of the handshake that panics refuses it, and leaves no place taken.
func TestHooksOfTheHandshakeThatPanic(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]router.Options{
		"Authenticate": {Authenticate: func(*http.Request) (ingress.Identity, error) { panic("on purpose") }},
		"ClientIP":     {ClientIP: func(*http.Request) netip.Addr { panic("on purpose") }},
	} {
		t.Run(name, func(t *testing.T) {
			gate := &diary{}
			var faults []router.Fault
			opts.Gate = gate
			opts.OnError = func(f router.Fault) { faults = append(faults, f) }
			s := serveSocket(t, opts, nil)
			p := s.connect()
			p.write([]byte(s.handshake()))
			if got := p.response().StatusCode; got != http.StatusInternalServerError {
				t.Errorf("status %d, want 500", got)
			}
			p.hangUp()
			if got := gate.read(); len(got) > 0 && got[len(got)-1] != "release" { // it is asked for an address that is known
				t.Errorf("the gate saw %v, want release at the end", got)
			}
			if len(faults) != 1 || faults[0].Stack == nil || !strings.Contains(faults[0].Err.Error(), name) {
				t.Errorf("faults %+v, want one with a stack that names %s", faults, name)
			}
		})
	}
}
