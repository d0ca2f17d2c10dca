package memory

// Topics counts the topics with subscribers.
func (b *Broker) Topics() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.topics)
}

// Topics counts the topics with members.
func (p *Presence) Topics() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.topics)
}
