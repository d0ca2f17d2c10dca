package main

import (
	"fmt"
	"strings"

	"github.com/wskit/wskit/bench/page"
)

// section is the table with all a reader needs to judge and repeat it.
func section(table string, contenders []contender, s settings) string {
	var b strings.Builder
	b.WriteString(page.Command("compare"))
	fmt.Fprintf(&b, "\nThe median of %d rounds, %v each. Idle: %d connections. Many: %d connections. Fan-out: %d subscribers.\n\n",
		s.rounds, s.duration, s.idleConns, s.manyConns, s.subscribers)
	b.WriteString(table)
	fmt.Fprintf(&b, "\nServer and load share the cores of the machine:\n\n%s\nLibraries:\n\n", page.Machine())
	for _, c := range contenders {
		fmt.Fprintf(&b, "- %s: %s\n", c.name, c.library)
	}
	return b.String()
}
