package router_test

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// A handler that ignores its context is in the log once, and one that ends with its time is not.
func TestHandlersThatOverrunAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log safeLog
		r := router.New(router.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), RequestTimeout: time.Second})
		concurrent := router.RouteOptions{Concurrent: true}
		goOn := make(chan bool)
		router.RPC(r, "deaf", func(*router.Context, struct{}) (int, error) { <-goOn; return 0, nil }, concurrent)
		router.RPC(r, "deaf.inline", func(*router.Context, struct{}) (int, error) { <-goOn; return 0, nil })
		router.RPC(r, "good", func(c *router.Context, _ struct{}) (int, error) { <-c.Done(); return 0, c.Err() }, concurrent)
		c := routertest.New(t, r).Dial()
		for range 3 {
			c.Request("deaf", nil)
			c.Request("good", nil)
		}
		c.Request("deaf.inline", nil)
		time.Sleep(1900 * time.Millisecond)
		if n := log.count("goes on after its time"); n != 0 {
			t.Errorf("%d lines after 900 ms", n)
		}
		time.Sleep(time.Minute)
		close(goOn)
		synctest.Wait()
		if n := log.count("goes on after its time"); n != 2 || log.count("type=deaf ") != 1 || log.count("type=deaf.inline ") != 1 {
			t.Errorf("the log is\n%s", log.buf.String())
		}
	})
}

// The log names the hook that failed.
func TestFaultsNameTheirHook(t *testing.T) {
	t.Parallel()
	var log safeLog
	s := serveSocket(t, router.Options{
		Logger:       slog.New(slog.NewTextHandler(&log, nil)),
		Authenticate: func(*http.Request) (ingress.Identity, error) { return ingress.Identity{}, errors.New("no database") },
	}, nil)
	p := s.connect()
	p.write([]byte(s.handshake()))
	if res := p.response(); res.StatusCode != http.StatusInternalServerError {
		t.Errorf("the status is %d", res.StatusCode)
	}
	p.hangUp()
	if log.count(`error="no database" hook=Authenticate`) != 1 {
		t.Errorf("the log is\n%s", log.buf.String())
	}
}
