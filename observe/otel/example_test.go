package otel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/wskit/wskit/observe/otel"
	"github.com/wskit/wskit/router"
)

func ExampleNewProducer() {
	r := router.New()
	reader := metric.NewManualReader(metric.WithProducer(otel.NewProducer(r)))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer provider.Shutdown(context.Background())

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
	}
	fmt.Println(all.ScopeMetrics[0].Metrics[0].Name)
	// Output: wskit.server.active_connections
}

func ExampleTrace() {
	exporter := tracetest.NewInMemoryExporter() // in place of one to a collector
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	defer provider.Shutdown(context.Background())

	r := router.New(router.Options{Handshake: router.Handshake{ConnContext: otel.ConnContext}})
	otel.Trace(r, otel.TraceOptions{TracerProvider: provider, PublicEndpoint: true})
	router.RPC(r, "room.join", func(c *router.Context, _ struct{}) (struct{}, error) {
		// Pass c to the database: its spans are then within that of the message.
		return struct{}{}, nil
	})
	// Output:
}
