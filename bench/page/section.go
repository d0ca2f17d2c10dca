package page

import (
	"fmt"
	"runtime/debug"
	"strings"
)

// Section is what a command has measured.
type Section struct {
	Title   string
	Command string     // its name under cmd
	About   string     // how it was measured, in a few sentences
	Table   [][]string // the first line is the head
	Notes   string     // after the table; a paragraph or a list
	// Libraries are those that were measured.
	Libraries []string
}

// Show prints the table and puts the section into the file, unless its name is empty.
func (s Section) Show(file string) error {
	fmt.Print("\n", Table(s.Table))
	if file == "" {
		return nil
	}
	return Write(file, s.Title, s.text())
}

func (s Section) text() string {
	text := Command(s.Command) + "\n" + s.About + "\n\n" + Table(s.Table) + "\n"
	if s.Notes != "" {
		text += s.Notes + "\n\n"
	}
	text += Machine()
	if len(s.Libraries) > 0 {
		text += "\nLibraries:\n\n- " + strings.Join(s.Libraries, "\n- ")
	}
	return text
}

// Library is a line of Section.Libraries: a module in its version that is part of this program.
func Library(name, module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		switch {
		case dep.Path != module:
		case dep.Replace != nil:
			return name + ": " + module + ", this checkout"
		default:
			return name + ": " + module + " " + dep.Version
		}
	}
	return name + ": " + module
}
