// Command check checks recordings of package deliverytest:
//
//	go run ./internal/deliverytest/check recording.jsonl...
//
// It prints figures and violations of each file, and ends with 1 if there are any.
package main

import (
	"fmt"
	"os"

	"github.com/wskit/wskit/internal/deliverytest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: check file...")
		os.Exit(2)
	}
	code := 0
	for _, name := range os.Args[1:] {
		report, err := deliverytest.CheckFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		fmt.Printf("%s: %s", name, report)
		if len(report.Violations) > 0 {
			code = 1
		}
	}
	os.Exit(code)
}
