//go:build !race

// Package race says whether the race detector watches, for tests that count
// allocations: under it sync.Pool drops things at random.
package race

// Enabled says whether the race detector watches.
const Enabled = false
