// Package overlay has files of the product replaced in one build.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Write keeps in dir, which is new, what go build reads in place of files, and returns the list for its flag -overlay.
// The files are named by their absolute paths; those that do not exist are added.
func Write(dir string, files map[string][]byte) (list string, err error) {
	replace := make(map[string]string, len(files))
	for path, source := range files {
		copied := filepath.Join(dir, fmt.Sprint(len(replace), "-", filepath.Base(path)))
		if err := os.WriteFile(copied, source, 0o600); err != nil {
			return "", err
		}
		replace[path] = copied
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}
