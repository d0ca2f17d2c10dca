package router

import (
	"unicode/utf8"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
)

// What a broker delivers may come from others than our publishers: from any that may publish at
// the server behind it. So a message is looked at before any subscriber gets it: it has to
// be an event as publish makes them, and one message must not close connections.

// errForeign says what is wrong with a message of the broker.
func (r *Router) errForeign(p *envelope.Peeker, frame []byte) error {
	if err := r.errTooLarge(len(frame)); err != nil {
		return err
	}
	if !utf8.Valid(frame) {
		return errors.New("it is not UTF-8")
	}
	e, err := p.PeekAll(frame)
	switch {
	case err != nil:
		return err
	case e.CorrelationID != nil:
		return errors.New("it has a correlation id, as answers have")
	case reserved(e.Type):
		return errReserved
	}
	return nil
}

// refuseForeign drops a message of the broker that is no event.
func (r *Router) refuseForeign(topic string, err error) {
	if r.stats.foreign.Add(1) == 1 {
		r.opts.Logger.Warn("wskit: a message from the broker was dropped; further ones are counted in Stats.Foreign only",
			"topic", topic, "error", err)
	}
}
