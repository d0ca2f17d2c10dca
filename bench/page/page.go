// Package page writes RESULTS.md: every command that measures has a section of its own
// in it, with the command that wrote it and the machine it ran on, and leaves the others
// alone.
package page

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const head = "# Results\n\nEvery section is written by the command it names; do not edit. README.md says what each figure means.\n"

// Write puts a section into the file: in the place of the one that has the title, or at
// the end.
func Write(file, title, text string) error {
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(file, []byte(replace(string(old), title, text)), 0o644)
}

// replace returns the page with the section of the title replaced. A section begins with
// a line "## title" and ends before the next such line. What stands before the first one
// is the head.
func replace(page, title, text string) string {
	sections := strings.Split("\n"+page, "\n## ")[1:]
	section := title + "\n\n" + strings.TrimSpace(text) + "\n"
	i := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, title+"\n") })
	if i < 0 {
		sections = append(sections, section)
	} else {
		sections[i] = section
	}
	var b strings.Builder
	b.WriteString(head)
	for _, s := range sections {
		b.WriteString("\n## " + strings.TrimSpace(s) + "\n")
	}
	return b.String()
}

// Command is the command line as a reader can repeat it, whatever built this binary. The
// name is that of the command under cmd.
func Command(name string) string {
	command := "go run ./cmd/" + name
	flag.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		if _, isBool := f.Value.(interface{ IsBoolFlag() bool }); isBool {
			command += " -" + f.Name + "=" + value
			return
		}
		if f.Name == "out" {
			value = filepath.Base(value)
		}
		if strings.ContainsAny(value, " |()*?$") {
			value = "'" + value + "'"
		}
		command += " -" + f.Name + " " + value
	})
	return "```\n" + command + "\n```\n"
}

// Machine says what it was measured on, and nothing that names the machine.
func Machine() string {
	return fmt.Sprintf("- CPU: %s, %d cores\n- kernel: %s %s, %s\n- Go: %s\n",
		cpuModel(), runtime.NumCPU(), runtime.GOOS, kernelRelease(), runtime.GOARCH, runtime.Version())
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

// Table is a table in Markdown, which reads well on a terminal too: the cells are padded
// so that the columns line up. The first line is the head.
func Table(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width)
	}
	lines = slices.Insert(slices.Clone(lines), 1, rule)

	var b strings.Builder
	for _, cells := range lines {
		for i, cell := range cells {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))))
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// Number shows three significant digits, and large numbers in thousands.
func Number(v float64) string {
	switch {
	case v >= 10_000:
		return fmt.Sprintf("%.0fk", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Met says whether a target is met.
func Met(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}
