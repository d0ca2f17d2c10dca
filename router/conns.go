package router

func (r *Router) add(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.list.next = r.conns.first
	if c.list.next != nil {
		c.list.next.list.prev = c
	}
	r.conns.first = c
	r.stats.connections.Add(1)
}

func (r *Router) remove(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.list.prev != nil {
		c.list.prev.list.next = c.list.next
	} else {
		r.conns.first = c.list.next
	}
	if c.list.next != nil {
		c.list.next.list.prev = c.list.prev
	}
	c.list = connLink{}
	r.stats.connections.Add(-1)
	if r.conns.first == nil && r.emptied != nil {
		close(r.emptied)
		r.emptied = nil
	}
}

func (r *Router) all() []*Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Conn
	for c := r.conns.first; c != nil; c = c.list.next {
		all = append(all, c)
	}
	return all
}
