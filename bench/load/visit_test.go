package load_test

import (
	"testing"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/rival"
	"github.com/wskit/wskit/bench/server"
)

// Each connection has its request answered and its close frame, under TLS with the session of the one before.
func TestVisits(t *testing.T) {
	everyKind(t, func(t *testing.T, kind string, secure bool) {
		routes, _ := rival.Routes(kind, false)
		target := serve(t, routes.Visit, secure)
		target.Token = server.Token
		if err := load.Visit(t.Context(), target, 3); err != nil {
			t.Fatal(err)
		}
		target.Token = "wrong"
		if err := load.Visit(t.Context(), target, 1); err == nil {
			t.Error("a client with the wrong token was let in")
		}
	})
}
