package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Every line that the packages log is in observability.md, up to the first sign that joins two parts of it.
func TestLogLinesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("observability.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, root := range []string{"router", "limit", "middleware", "adapters", "ingress", "inspect", "internal/outage", "internal/httpclose", "idempotency"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() == "node_modules" {
				return fs.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, line := range logged(file) {
				lines++
				text, _, _ := strings.Cut(line, ";")
				if text = strings.TrimSuffix(strings.TrimSpace(text), ":"); !strings.Contains(string(doc), text) {
					t.Errorf("%s logs %q, which observability.md does not have", path, line)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if lines < 20 {
		t.Errorf("only %d log lines were found", lines)
	}
}

// logged returns the texts of log lines in a file: first arguments of methods of loggers, and the lines of outages.
func logged(file *ast.File) (lines []string) {
	add := func(e ast.Expr) {
		if b, ok := e.(*ast.BinaryExpr); ok {
			e = b.X
			if inner, ok := e.(*ast.BinaryExpr); ok {
				e = inner.X
			}
		}
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, _ := strconv.Unquote(l.Value); strings.Contains(text, ": ") {
				lines = append(lines, text)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			switch f.Sel.Name {
			case "Info", "Warn", "Error":
				if len(n.Args) > 0 && !isTest(f) {
					add(n.Args[0])
				}
			case "LogAttrs":
				add(n.Args[2])
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Failing" || key.Name == "Working") {
				add(n.Value)
			}
		}
		return true
	})
	return lines
}

// isTest reports whether a method is of a testing.TB, in the suites.
func isTest(f *ast.SelectorExpr) bool {
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == "t"
}
