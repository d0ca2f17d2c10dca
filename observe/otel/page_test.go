package otel_test

import (
	"testing"

	"github.com/wskit/wskit/router"
)

import wsotel "github.com/wskit/wskit/observe/otel"

// The code of docs/observability.md.
func TestObservabilityPage(t *testing.T) {
	r := router.New(router.Options{Handshake: router.Handshake{ConnContext: wsotel.ConnContext}})
	wsotel.Trace(r, wsotel.TraceOptions{PublicEndpoint: true})
	router.On(r, "event", func(*router.Context, struct{}) error { return nil })
}
