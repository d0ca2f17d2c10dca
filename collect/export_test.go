package collect

// Topics is how many topics have a timer.
func (c *Collector[T]) Topics() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.topics)
}
