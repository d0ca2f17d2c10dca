package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one break of the product.
type mutant struct {
	where string   // of the entry: router.txt:12
	name  string   // what breaks
	in    []string // the folders in which the lines are searched
	test  []string // arguments of go test: flags and packages
	whole bool     // the tests read the files of the product themselves
	old   []string // lines without their indentation
	new   []string
}

// parse reads a list. See README.md for its form.
func parse(file, text string) (list []*mutant, err error) {
	var in []string
	var m *mutant
	for i, line := range strings.Split(text, "\n") {
		where := fmt.Sprintf("%s:%d", file, i+1)
		switch {
		case strings.TrimSpace(line) == "":
			m = nil
		case strings.HasPrefix(line, "in: ") && m == nil:
			in = strings.Fields(line[len("in: "):])
		case strings.HasPrefix(line, "# ") && m == nil:
			m = &mutant{where: where, name: line[len("# "):], in: in}
			list = append(list, m)
		case m != nil && strings.HasPrefix(line, "# ") && m.test == nil:
			m.name += " " + line[len("# "):]
		case m != nil && strings.HasPrefix(line, "test: ") && m.test == nil:
			m.test = strings.Fields(line[len("test: "):])
			if m.whole = m.test[0] == "-whole"; m.whole {
				m.test = m.test[1:]
			}
		case m != nil && m.test != nil && strings.Contains("-+ ", line[:1]):
			text := strings.TrimSpace(line[1:])
			if line[0] != '+' {
				m.old = append(m.old, text)
			}
			if line[0] != '-' {
				m.new = append(m.new, text)
			}
		default:
			return nil, fmt.Errorf("%s: the line does not belong here: %q", where, line)
		}
	}
	for _, m := range list {
		if len(m.in) == 0 || len(m.test) == 0 || len(m.old) == 0 || slices.Equal(m.old, m.new) {
			return nil, fmt.Errorf("%s: the entry needs folders (in:), a test: line, and lines that are replaced", m.where)
		}
	}
	return list, nil
}

// product reports whether a file is one that may be broken.
func product(path string) bool {
	name := filepath.Base(path)
	if strings.HasSuffix(name, "_test.go") || strings.Contains(name, ".test.") {
		return false
	}
	return slices.Contains([]string{".go", ".lua", ".sql", ".ts", ".mjs", ".js"}, filepath.Ext(name))
}

// files returns the product's files below folders of the project.
func files(root string, folders []string) (all []string, err error) {
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"node_modules", "dist", "test", "testdata"}, d.Name()):
				return filepath.SkipDir
			case d.Type().IsRegular() && product(path) && !slices.Contains(all, path):
				all = append(all, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// find returns the one file that has the old lines, and its text with the new ones.
func (m *mutant) find(root string) (path, broken string, err error) {
	all, err := files(root, m.in)
	if err != nil {
		return "", "", err
	}
	places := 0
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		lines := strings.Split(string(b), "\n")
		for i := range lines[:max(0, len(lines)-len(m.old)+1)] {
			if !slices.EqualFunc(lines[i:i+len(m.old)], m.old, func(a, b string) bool { return strings.TrimSpace(a) == b }) {
				continue
			}
			places++
			path = file
			broken = strings.Join(slices.Concat(lines[:i], m.new, lines[i+len(m.old):]), "\n")
		}
	}
	if places != 1 {
		return "", "", fmt.Errorf("the lines are in %d places instead of 1", places)
	}
	return path, broken, nil
}
