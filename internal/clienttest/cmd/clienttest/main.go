// Command clienttest runs the server of package clienttest for tests that are not written in Go.
package main

import (
	"os"

	"github.com/wskit/wskit/internal/clienttest"
)

func main() {
	options := ""
	if len(os.Args) > 1 {
		options = os.Args[1]
	}
	clienttest.Program(options)
}
