package router

// decodeFlat decodes a payload of the shape that nearly all have, and so need not read it twice. Of any other it
// learns nothing.
func (s *scratch) decodeFlat(f *incoming) {
	if f.complete || f.tooLarge || f.route == nil || f.route.builtin != nil {
		return
	}
	tail := s.peeker.Tail()
	if tail == nil {
		return
	}
	codec := f.route.codec
	lent := codec.get()
	if rest, ok := codec.DecodeFlat(lent, tail); ok && s.peeker.Took(&f.env, rest) {
		f.complete, f.lent = true, lent
		return
	}
	codec.put(lent)
}

// decode makes the route's message of a payload. A type may decode or validate
// itself, and panic.
func (c *Conn) decode(f *incoming) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			c.exited("a message that decodes itself", f)
			return
		}
		err = c.panicked(f.typ(), v)
	}()
	codec := f.route.codec
	lent := f.lent
	if f.lent = nil; lent != nil {
		err = codec.Check(lent)
	} else {
		lent = codec.get()
		err = codec.Decode(lent, f.env.Payload)
	}
	if err != nil {
		codec.put(lent)
		lent = nil
	}
	f.lent = lent
	returned = true
	return err
}
