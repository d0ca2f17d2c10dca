// Command delays runs tests while the product pauses where goroutines, sockets and processes meet, see places.txt. A
// pause is up to 25 ms long, and comes in one of six calls. So tests fail that take for granted an order which only a
// machine with nothing else to do has. And tests look 1.5 s late for what they wait for (internal/poll), so those fail
// that wait for what lasts a moment. It is run in the folder tools, with the arguments of go test:
//
//	go run ./delays ./router ./client
//
// Pauses are real: a fake clock does not see them.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/wskit/wskit/tools/overlay"
)

//go:embed places.txt
var places string

//go:embed pause.go.txt
var pause []byte

// pausePackage has the function that is called at each place. It is in no folder, only in the overlay of the build.
const pausePackage = "internal/pause"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "delays:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "delays")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	list, err := writeOverlay(root, temp)
	if err != nil {
		return err
	}
	// Many tests at once: pauses use no processor.
	flags := []string{"test", "-overlay=" + list, "-parallel=16", "-vet=off", "-count=1", "-shuffle=on", "-timeout=30m"}
	test := exec.Command("go", append(flags, args...)...)
	test.Dir, test.Stdout, test.Stderr = root, os.Stdout, os.Stderr
	return test.Run()
}

// writeOverlay writes the files with pauses, and returns the list that go build takes.
func writeOverlay(root, temp string) (list string, err error) {
	files, err := withPauses(root)
	if err != nil {
		return "", err
	}
	replaced := map[string][]byte{filepath.Join(root, pausePackage, "pause.go"): pause}
	for name, source := range files {
		replaced[filepath.Join(root, name)] = source
	}
	return overlay.Write(temp, replaced)
}

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

// testsWait has the functions with which tests wait.
const testsWait = "internal/poll/poll.go"

// withPauses returns the files of the places, with a pause at the beginning of each function.
func withPauses(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for line := range strings.Lines(places) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		file, function, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("places.txt has %q; a line is a file, a colon and the first line of a function", line)
		}
		source := string(files[file])
		if source == "" {
			read, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			clause := packageClause.FindString(string(read))
			source = strings.Replace(string(read), clause, clause+"\n\nimport \"github.com/wskit/wskit/"+pausePackage+"\"", 1)
		}
		if n := strings.Count(source, "\n"+function+"\n"); n != 1 {
			return nil, fmt.Errorf("places.txt has %q, which is in %s %d times; change the place with the code", function, file, n)
		}
		call := "pause.Now()"
		if file == testsWait {
			call = "pause.Late()"
		}
		files[file] = []byte(strings.Replace(source, "\n"+function+"\n", "\n"+function+"\n"+call+"\n", 1))
	}
	return files, nil
}
