package memory

// Topics counts the topics with subscribers.
func (b *Broker) Topics() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.topics)
}

// Topics counts the topics with members or watchers.
func (p *Presence) Topics() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.topics)
}
