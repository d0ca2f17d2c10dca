package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// resultsPage is the table with all a reader needs to judge and repeat it, and with
// nothing that names the machine it ran on.
func resultsPage(table string, contenders []contender, s settings) string {
	var b strings.Builder
	b.WriteString("# Results\n\nWritten by the command below; do not edit. README.md says what each figure means.\n\n")
	fmt.Fprintf(&b, "```\n%s\n```\n\n", commandLine())
	fmt.Fprintf(&b, "The median of %d rounds, %v each. Idle: %d connections. Many: %d connections. Fan-out: %d subscribers.\n\n",
		s.rounds, s.duration, s.idleConns, s.manyConns, s.subscribers)
	b.WriteString(table)
	fmt.Fprintf(&b, "\n## Machine\n\n- CPU: %s, %d cores, shared by server and load\n- kernel: %s %s, %s\n- Go: %s\n",
		cpuModel(), runtime.NumCPU(), runtime.GOOS, kernelRelease(), runtime.GOARCH, runtime.Version())
	b.WriteString("\n## Libraries\n\n")
	for _, c := range contenders {
		fmt.Fprintf(&b, "- %s: %s\n", c.name, c.library)
	}
	return b.String()
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(info) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(key)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return "unknown"
}

// kernelRelease is the version number alone: what follows it can name a vendor's or a
// host's build.
func kernelRelease() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	return version
}
