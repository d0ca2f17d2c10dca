package contract

import (
	"fmt"
	"strings"
)

// diff lists the lines that differ, those of a with -, those of b with +, with the line before and
// behind.
func diff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	start := 0
	for start < len(x) && start < len(y) && x[start] == y[start] {
		start++
	}
	endX, endY := len(x), len(y)
	for endX > start && endY > start && x[endX-1] == y[endY-1] {
		endX, endY = endX-1, endY-1
	}
	var out strings.Builder
	if start > 0 {
		fmt.Fprintf(&out, "%5d   %s\n", start, x[start-1])
	}
	for i, j := start, start; i < endX || j < endY; {
		m, n := next(x[i:endX], y[j:endY])
		for range m {
			fmt.Fprintf(&out, "%5d - %s\n", i+1, x[i])
			i++
		}
		for range n {
			fmt.Fprintf(&out, "%5d + %s\n", j+1, y[j])
			j++
		}
		same := 0
		for i < endX && j < endY && x[i] == y[j] {
			i, j, same = i+1, j+1, same+1
		}
		switch {
		case same > 2:
			fmt.Fprintf(&out, "%5d   %s\n  …\n", i-same+1, x[i-same])
			fallthrough
		case same > 0:
			fmt.Fprintf(&out, "%5d   %s\n", i, x[i-1])
		}
	}
	if endX < len(x) {
		fmt.Fprintf(&out, "%5d   %s\n", endX+1, x[endX])
	}
	return out.String()
}

// next returns how many lines of both come before the next that they have in common.
func next(x, y []string) (m, n int) {
	for sum := 0; sum < len(x)+len(y); sum++ {
		for m := max(0, sum-len(y)); m <= min(sum, len(x)); m++ {
			if n := sum - m; m < len(x) && n < len(y) && x[m] == y[n] {
				return m, n
			}
		}
	}
	return len(x), len(y)
}
