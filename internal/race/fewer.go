package race

// Fewer is how many rounds a test with one goroutine makes, of n: a tenth under the race detector, which makes it slow
// and can find nothing there.
func Fewer(n int) int {
	if Enabled {
		return max(1, n/10)
	}
	return n
}
