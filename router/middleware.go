package router

// askMiddleware sends the frame through the middleware of Router.Use. A frame that
// is too large or malformed goes through it, too: it has to be paid for like any other. One of the
// protocol does only where the client sends more of them than it needs.
func (c *Conn) askMiddleware(s *scratch, f *incoming) (err error) {
	s.in.Type, s.in.ReceivedAt, s.in.Size = f.typ(), c.stream.ReadAt(), f.size
	s.in.State.SentType, s.in.State.Passed = f.env.Type, false
	if s.in.State.Values != nil {
		s.in.State.Values = nil
	}
	if len(s.in.State.Guards) > 0 {
		s.dropGuards()
	}
	if c.serving.own {
		s.in.Exempt, s.in.State.Own, s.in.State.Silent = false, nil, false
		if f.route != nil && f.route.own != nil {
			s.in.Exempt, s.in.State.Own, s.in.State.Silent = f.route.own.exempt, f.route.own, f.route.own.silent
		}
	}
	if c.passesFreely(f) {
		return nil
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			if !f.complete {
				_ = s.peeker.Rest(&f.env) // for the correlation id
			}
			c.exited("middleware", f)
			return
		}
		err = c.panicked(f.typ(), v)
	}()
	err = c.serving.ingress(&s.in)
	returned = true
	if err == nil && !s.in.State.Passed {
		return errSwallowed
	}
	if s.in.State.Silent {
		if l := rejection(err); l != nil {
			return s.in.Reject(*l) // sets Silent, if the middleware has not called Reject
		}
	}
	return err
}

// ends reports whether an error of the middleware is a rejection that closes the
// connection.
func ends(err error) bool {
	l := rejection(err)
	return l != nil && l.Close.Valid()
}
