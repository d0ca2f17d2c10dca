//go:build amd64 || arm64

package table

// prefetch begins to load the cache line of p and does not wait for it.
//
//go:noescape
func prefetch(p *int64)
