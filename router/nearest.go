package router

import (
	"bytes"

	"github.com/wskit/wskit/errors"
)

var errUnknownType = errors.Unimplemented.New("message type is not known")

// unknownType is the error for a type that is not registered. It names a registered one that the client may mean: one
// that differs in one letter, in two that have changed places, or in capitals. It has no text of the client: it is
// logged. All types are compared once a second at most, so that a flood costs no more than a look at the time.
func (c *Conn) unknownType(typ []byte) error {
	second, last := c.stream.ReadAt().Unix(), c.serving.compared.Load()
	if second == last || !c.serving.compared.CompareAndSwap(last, second) {
		return errUnknownType
	}
	for name, rt := range c.serving.routes {
		if !rt.protocol && isSlip(typ, name) {
			return errors.Unimplemented.Errorf("message type is not known; %q is", name)
		}
	}
	return errUnknownType
}

// isSlip reports whether text is another, which was meant, but for one slip. It takes time in proportion to the
// shorter.
func isSlip(text []byte, meant string) bool {
	if d := len(text) - len(meant); d < -1 || d > 1 {
		return false
	}
	if bytes.EqualFold(text, []byte(meant)) {
		return true
	}
	for len(text) > 0 && len(meant) > 0 && text[0] == meant[0] {
		text, meant = text[1:], meant[1:]
	}
	for len(text) > 0 && len(meant) > 0 && text[len(text)-1] == meant[len(meant)-1] {
		text, meant = text[:len(text)-1], meant[:len(meant)-1]
	}
	return len(text) <= 1 && len(meant) <= 1 || len(text) == 2 && len(meant) == 2 && text[0] == meant[1] && text[1] == meant[0]
}
