package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// results reads the files in bench that benchmarks and tests under faults write.
type results struct{ dir string }

// A figure is a cell of a table in them.
type figure struct {
	file    string
	section string // the heading above the table, empty in a file without
	row     string // its first cell
	column  string // the heading of its column
}

const (
	servers    = "Servers"
	underTLS   = "Servers under TLS"
	inMemory   = "Limits"
	refusals   = "Refused frames"
	best       = "ours ÷ best rival"
	resultFile = "RESULTS.md"
	redisFile  = "RESULTS-redis.md"
	faultsFile = "RESULTS-faults.md"
)

// text is the figure as the table has it.
func (r results) text(f figure) (string, error) {
	page, err := os.ReadFile(filepath.Join(r.dir, f.file))
	if err != nil {
		return "", err
	}
	text := string(page)
	if f.section != "" {
		_, after, found := strings.Cut(text, "\n## "+f.section+"\n")
		if !found {
			return "", fmt.Errorf("%s has no section %q", f.file, f.section)
		}
		text, _, _ = strings.Cut(after, "\n## ")
	}
	column := -1
	for line := range strings.Lines(text) {
		cells := cellsOf(line)
		switch {
		case len(cells) == 0:
			column = -1 // the next table
		case column < 0:
			for i, c := range cells {
				if c == f.column {
					column = i
				}
			}
			if column < 0 {
				column = len(cells) // another table
			}
		case cells[0] == f.row && column < len(cells):
			return cells[column], nil
		}
	}
	return "", fmt.Errorf("%s: no table of %q has the row %q and the column %q", f.file, f.section, f.row, f.column)
}

// number is the figure as a number: 1511k is 1,511,000. The name of a library may be before it.
func (r results) number(f figure) (float64, error) {
	text, err := r.text(f)
	if err != nil {
		return 0, err
	}
	text = text[strings.LastIndex(text, " ")+1:]
	factor := 1.0
	if digits, ok := strings.CutSuffix(text, "k"); ok {
		text, factor = digits, 1e3
	} else if digits, ok := strings.CutSuffix(text, "M"); ok {
		text, factor = digits, 1e6
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%s, %q: %w", f.file, f.row, err)
	}
	return n * factor, nil
}

// cellsOf splits a line of a table; other lines have none.
func cellsOf(line string) (cells []string) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(c))
	}
	return cells
}
