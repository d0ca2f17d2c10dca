package main

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/bench/server"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

var result atomic.Uint32

// burn needs CPU time, as a handler does that renders or searches.
func burn(steps int) {
	var block [1024]byte
	for range steps {
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
	}
	result.Store(uint32(block[0]))
}

// stepsOf returns how many steps need a time of the CPU.
func stepsOf(work time.Duration) int {
	const sample = 20_000
	before, err := server.CPUTime(os.Getpid())
	burn(sample)
	after, err2 := server.CPUTime(os.Getpid())
	if err != nil || err2 != nil || after <= before {
		return sample
	}
	return max(1, int(sample*work/(after-before)))
}

type query struct {
	N int `json:"n"`
}

func serveWork(shed bool, steps int) error {
	runtime.GOMAXPROCS(1)
	r := router.New(router.Options{
		Authenticate: func(req *http.Request) (ingress.Identity, error) {
			q := req.URL.Query()
			return ingress.Identity{User: q.Get("user"), Tier: q.Get("tier")}, nil
		},
		Overload: router.OverloadOptions{Enabled: shed, Tiers: map[string]int{"paid": 2}},
	})
	handle := func(_ *router.Context, q query) (query, error) {
		burn(steps)
		return q, nil
	}
	router.RPC(r, "work", handle)
	router.RPC(r, "report", handle, router.RouteOptions{Priority: -2})
	return server.Run("127.0.0.1:0", false, server.Routes{Echo: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Has("stats") {
			_ = json.NewEncoder(w).Encode(r.Stats().Overload)
			return
		}
		r.ServeHTTP(w, req)
	})})
}
