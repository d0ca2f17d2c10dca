package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostWaits is how many functions of tests may use the real clock. It may only become less.
const mostWaits = 25

// Tests wait for events, and durations are tested in bubbles of testing/synctest or with a clock that the test steps:
// what waits for the real clock, or compares something with it, fails on a machine that is busy. The functions that
// have to are in testdata/clocks.txt, each with its reason.
func TestTestsDoNotWaitForTheClock(t *testing.T) {
	allowed := readAllowed(t)
	used := map[string]bool{}
	for dir, files := range testFiles(t) {
		for _, w := range waits(t, files) {
			where := path.Join(dir, w.function)
			if used[where] = true; allowed[where] == "" {
				t.Errorf("%s uses the real clock in %s: wait for the event (internal/poll), or test it in a bubble "+
					"(testing/synctest)", w.at, where)
			}
		}
	}
	for where, reason := range allowed {
		if !used[where] {
			t.Errorf("testdata/clocks.txt: %s does not use the real clock any more: remove the line", where)
		}
		if reason == "" {
			t.Errorf("testdata/clocks.txt: %s has no reason", where)
		}
	}
	if len(allowed) > mostWaits {
		t.Errorf("testdata/clocks.txt has %d functions, and at most %d may use the real clock", len(allowed), mostWaits)
	}
}

// readAllowed reads lines "folder/function: reason".
func readAllowed(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/clocks.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		where, reason, _ := strings.Cut(strings.TrimSpace(line), ": ")
		allowed[where] = reason
	}
	return allowed
}

// testFiles returns the files of tests of all modules by folder: *_test.go, and those of packages for tests.
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	tree := root(t)
	err := filepath.WalkDir(tree, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && name != tree) {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(tree, name)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".go") && forTests(dir) {
			files[dir] = append(files[dir], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// forTests reports whether a package is for tests alone.
func forTests(dir string) bool {
	base := path.Base(dir)
	return strings.HasSuffix(base, "test") && base != "test" ||
		slices.Contains([]string{"internal/poll", "internal/process", "internal/stepclock"}, dir)
}

// A wait is a use of the real clock.
type wait struct {
	at       token.Position
	function string
}

// waits returns where the functions of a folder use the real clock: outside of the arguments of synctest.Test, and of
// functions that are used nowhere else.
func waits(t *testing.T, files []string) (found []wait) {
	t.Helper()
	fset := token.NewFileSet()
	var functions []*ast.FuncDecl
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				functions = append(functions, f)
			}
		}
	}
	enter := bubbles(functions)
	bubbled := bubbledFunctions(functions, enter)
	for _, f := range functions {
		if bubbled[f.Name.Name] {
			continue
		}
		outside(f, enter, func(n ast.Node) {
			if usesClock(n) {
				found = append(found, wait{fset.Position(n.Pos()), f.Name.Name})
			}
		})
	}
	return found
}

// bubbles returns the names of the functions whose arguments run in a bubble: synctest.Test, and those that give one of
// their parameters to such a function.
func bubbles(functions []*ast.FuncDecl) map[string]bool {
	names := map[string]bool{"synctest.Test": true}
	for before := 0; before < len(names); {
		before = len(names)
		for _, f := range functions {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && names[called(call)] && mentionsFunc(call, f.Type.Params) {
					names[f.Name.Name] = true
				}
				return true
			})
		}
	}
	return names
}

// mentionsFunc reports whether a call uses a parameter that is a function.
func mentionsFunc(call *ast.CallExpr, params *ast.FieldList) bool {
	return slices.ContainsFunc(params.List, func(p *ast.Field) bool {
		_, isFunc := p.Type.(*ast.FuncType)
		return isFunc && slices.ContainsFunc(p.Names, func(name *ast.Ident) bool { return mentions(call, name.Name) })
	})
}

// bubbledFunctions returns the functions that are used in bubbles alone.
func bubbledFunctions(functions []*ast.FuncDecl, enter map[string]bool) map[string]bool {
	bubbled := map[string]bool{}
	for _, f := range functions {
		name := f.Name.Name
		if !ast.IsExported(name) && name != "main" && name != "init" {
			bubbled[name] = true
		}
	}
	for _, f := range functions {
		uses := func(g *ast.FuncDecl) bool { return mentions(g.Body, f.Name.Name) }
		if !slices.ContainsFunc(functions, uses) {
			delete(bubbled, f.Name.Name)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, f := range functions {
			if bubbled[f.Name.Name] {
				continue
			}
			outside(f, enter, func(n ast.Node) {
				if id, ok := n.(*ast.Ident); ok && bubbled[id.Name] {
					delete(bubbled, id.Name)
					changed = true
				}
			})
		}
	}
	return bubbled
}

// outside visits what of a function is in no bubble.
func outside(f *ast.FuncDecl, enter map[string]bool, visit func(ast.Node)) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && enter[called(call)] {
			return false
		}
		if n != nil {
			visit(n)
		}
		return true
	})
}

// usesClock reports whether a node waits for the real clock or compares something with it.
func usesClock(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch called(call) {
	case "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick", "time.Since",
		"time.Until":
		return true
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"After", "Before", "Compare", "Sub"}, method.Sel.Name) {
		return false
	}
	return readsClock(method.X) || slices.ContainsFunc(call.Args, readsClock)
}

// readsClock reports whether an expression is time.Now() or calls a method of it.
func readsClock(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	if method, ok := call.Fun.(*ast.SelectorExpr); ok && called(call) != "time.Now" {
		return readsClock(method.X)
	}
	return called(call) == "time.Now"
}

// called returns the name of the function that is called, with its package.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return fmt.Sprintf("%s.%s", x.Name, f.Sel.Name)
		}
	}
	return ""
}

func mentions(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return true
	})
	return found
}

// The check finds what it is for: each function whose name begins with "bad", and no other.
func TestUsesOfTheClockAreFound(t *testing.T) {
	found := map[string]bool{}
	for _, w := range waits(t, []string{filepath.Join("testdata", "clocks.go.txt")}) {
		found[w.function] = true
		if !strings.HasPrefix(w.function, "bad") && !strings.HasPrefix(w.function, "TestBad") {
			t.Errorf("%v: %s is right", w.at, w.function)
		}
	}
	if len(found) != 6 {
		t.Errorf("found %v, want six functions", found)
	}
}
