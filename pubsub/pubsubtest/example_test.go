package pubsubtest_test

import (
	"testing"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

// The test of a broker. This one reaches no further than its process, so one stands
// for all.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestBroker(t *testing.T)
		pubsubtest.Run(t, func(_ *testing.T, n int) []pubsub.Broker {
			broker := memory.NewBroker()
			brokers := make([]pubsub.Broker, n)
			for i := range brokers {
				brokers[i] = broker
			}
			return brokers
		})
	}
}

// The test of a broker that keeps logs, besides that of the broker. This one cannot lose
// anything, so the parts with losses are skipped.
func ExampleRunLog() {
	_ = func(t *testing.T) { // func TestLog(t *testing.T)
		pubsubtest.RunLog(t, func(_ *testing.T, n int) []pubsub.Log {
			broker := memory.NewBroker()
			logs := make([]pubsub.Log, n)
			for i := range logs {
				logs[i] = broker
			}
			return logs
		}, pubsubtest.LogFaults{})
	}
}

// The test of a presence.
func ExampleRunPresence() {
	_ = func(t *testing.T) { // func TestPresence(t *testing.T)
		pubsubtest.RunPresence(t, func(_ *testing.T, n int) []pubsub.Presence {
			presence := memory.NewPresence()
			all := make([]pubsub.Presence, n)
			for i := range all {
				all[i] = presence
			}
			return all
		})
	}
}
