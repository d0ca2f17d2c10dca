//go:build race

package ratelimit_test

// Under the race detector, pools drop things at random.
const raceEnabled = true
