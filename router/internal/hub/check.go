package hub

import (
	"unicode/utf8"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
	"github.com/wskit/wskit/router/internal/frame"
)

// What a broker delivers may come from others than our publishers: from any that may publish at
// the server behind it. So a message is looked at before any subscriber gets it: it has to
// be an event as publish makes them, and one message must not close connections.

// Check says what is wrong with a message of the broker, nil if a hub can have published it.
func (h *Hub) Check(p *envelope.Peeker, message []byte) error { return h.check(p, message, "") }

// check is Check for a place in which a type of the protocol is expected, too.
func (h *Hub) check(p *envelope.Peeker, message []byte, expected string) error {
	if err := h.ErrTooLarge(len(message)); err != nil {
		return err
	}
	if !utf8.Valid(message) {
		return errors.New("it is not UTF-8")
	}
	e, err := p.PeekAll(message)
	switch {
	case err != nil:
		return err
	case e.CorrelationID != nil:
		return errors.New("it has a correlation id, as answers have")
	case frame.Reserved(e.Type) && string(e.Type) != expected:
		return ErrReserved
	}
	return nil
}

// Refuse counts a message of the broker that is dropped because of an error of Check. The first is logged.
func (h *Hub) Refuse(topic string, err error) {
	if h.Counts.Dropped.Add(1) == 1 {
		h.Logger.Warn("wskit: a message from the broker was dropped; further ones are counted in Stats.Foreign only",
			"topic", topic, "error", err)
	}
}
