package memory_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/pubsub"
)

// Subscribers that come and go get each message once and in order, or a reason why they do not, while logs
// are trimmed.
func TestNothingIsMissedInSilence(t *testing.T) {
	for name, test := range map[string]struct {
		most int
		h    pubsub.History
	}{
		"plenty": {0, hour},
		"short":  {0, pubsub.History{Messages: 30, Bytes: 1 << 20, Age: time.Hour}},
		"aging":  {0, pubsub.History{Messages: 1000, Bytes: 1 << 20, Age: 2 * time.Millisecond}},
		"small":  {270_000, hour}, // of which ids may take a half
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // followers stay away for times of up to 20 ms
				var recording bytes.Buffer
				b, r := memory.NewBroker(memory.BrokerOptions{MaxLogBytes: test.most}), deliverytest.NewRecorder(&recording)
				const topics, publishers, each, followers = 3, 4, 300, 4
				following, end := context.WithCancel(ctx)
				var appending, reading sync.WaitGroup
				for i := range topics * followers {
					f := &deliverytest.Follower{Log: b, History: test.h, Recorder: r, Client: fmt.Sprint("client", i), Topic: fmt.Sprint("topic", i%topics)}
					reading.Go(func() {
						f.Follow(following)
						if err := f.Settle(ctx); err != nil {
							t.Error(err)
						}
					})
				}
				for p := range publishers {
					appending.Go(func() {
						for i := range each {
							deliverytest.Append(ctx, r, b, fmt.Sprint("topic", rand.IntN(topics)), test.h, fmt.Sprintf("%d-%d", p, i))
							if rand.IntN(10) == 0 {
								time.Sleep(time.Millisecond)
							}
						}
					})
				}
				appending.Wait()
				end()
				reading.Wait()
				events, err := deliverytest.Read(&recording)
				if err != nil || r.Err() != nil {
					t.Fatal(err, r.Err())
				}
				report := deliverytest.Check(events)
				t.Log(report)
				if len(report.Violations) > 0 || report.Received < publishers*each || name == "plenty" && len(report.Resets) > 0 {
					t.Error(report)
				}
			})
		})
	}
}
