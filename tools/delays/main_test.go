package main

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each place is a function of the product as it is now.
func TestPlaces(t *testing.T) {
	files, err := withPauses("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := strings.Count(string(files[testsWait]), "\npause.Late()\n")
	if n != 2 {
		t.Errorf("tests look late at %d places", n)
	}
	for name, source := range files {
		if _, err := parser.ParseFile(token.NewFileSet(), name, source, 0); err != nil {
			t.Error(err)
		}
		n += strings.Count(string(source), "\npause.Now()\n")
	}
	if n < 20 {
		t.Errorf("%d places", n)
	}
}

// A program of another folder sees the pauses.
func TestTheProductPauses(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := writeOverlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-overlay="+overlay, "-deps", "./router")
	list.Dir = root
	if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), "/"+pausePackage+"\n") {
		t.Errorf("package router does not import the pauses: %v\n%s", err, out)
	}
}
