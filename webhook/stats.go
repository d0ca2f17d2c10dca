package webhook

import (
	"sync/atomic"
	"time"
)

// Stats are figures of this process.
type Stats struct {
	// Sender says that this process sends at present.
	Sender bool
	// Sent are the events that were answered 2xx, Failed the requests that were not, which are repeated.
	Sent, Failed int64
	// Dropped are the events that will not be sent.
	Dropped int64
	// Behind is since when the request is repeated that is being sent; zero if there is none.
	Behind time.Time
}

type counters struct {
	sender                atomic.Bool
	sent, failed, dropped atomic.Int64
	since                 atomic.Pointer[time.Time]
}

// behind notes since when a request is being sent; zero: none is.
func (c *counters) behind(since time.Time) { c.since.Store(&since) }

// Stats returns the figures of this process.
func (w *Webhook) Stats() Stats {
	s := Stats{
		Sender: w.stats.sender.Load(), Sent: w.stats.sent.Load(), Failed: w.stats.failed.Load(), Dropped: w.stats.dropped.Load(),
	}
	if since := w.stats.since.Load(); since != nil {
		s.Behind = *since
	}
	return s
}
