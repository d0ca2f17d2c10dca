//go:build race

package limit_test

// Under the race detector, pools drop things at random.
const raceEnabled = true
