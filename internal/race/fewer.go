package race

// Fewer is how many rounds a test with one goroutine makes, of n: under the race detector, which makes it slow and can find
// nothing there, a tenth.
func Fewer(n int) int {
	if Enabled {
		return max(1, n/10)
	}
	return n
}
