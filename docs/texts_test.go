package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A shownText is a text of the packages for users that may be seen in an error, a log line, an answer or a close
// frame. "…" stands for what varies.
type shownText struct {
	place string // file and line
	text  string
	log   bool // a line of the log
}

// textRoots are the packages that make such texts.
var textRoots = []string{
	"router", "api", "webhook", "run", "limit", "middleware", "adapters", "ingress", "idempotency", "errors", "pubsub", "inspect", "client", "collect", "contract", "observe",
	"internal/batch", "internal/denialcache", "internal/engine", "internal/envelope", "internal/handshake", "internal/httpclose",
	"internal/jsontype", "internal/leasecheck", "internal/limitname", "internal/outage", "internal/shared",
}

// notShown are files whose texts are a part of a document and not of a problem.
var notShown = []string{
	"adapters/postgres/chat/main.go", "adapters/postgres/queries.go", "api/calls.go", "api/openapi.go", "contract/asyncapi_topics.go", "contract/diff.go", "contract/form.go", "contract/schema.go", "contract/typescript.go",
	"observe/internal/figures/metrics.go", "internal/handshake/deflate.go",
}

// two words of a sentence
var words = regexp.MustCompile(`\pL{2,}[:;,]? \pL{2,}`)

var verb = regexp.MustCompile(`%[-+#0]*[0-9]*(\.[0-9]+)?[a-z]`)

// texts returns the texts of the packages.
func texts(t *testing.T) (all []shownText) {
	t.Helper()
	for _, root := range textRoots {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "node_modules" || strings.HasSuffix(d.Name(), "test")) {
				return fs.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			for _, file := range notShown {
				if strings.HasSuffix(filepath.ToSlash(path), file) {
					return nil
				}
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			for _, s := range textsOf(file) {
				s.place = files.Position(s.at).String()
				all = append(all, s.shownText)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

type textAt struct {
	shownText
	at token.Pos
}

// textsOf returns the texts of a file: string literals, joined ones as one, of at least two words, up to the end of
// their first line.
func textsOf(file *ast.File) (found []textAt) {
	logs := make(map[ast.Expr]bool)
	begins := make(map[ast.Expr]string)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field: // paths, and tags
			return false
		case *ast.CallExpr:
			if at, ok := logArgument(n); ok {
				logs[n.Args[at]] = true
			}
			begin := begins[n] + beginOf(n)
			for _, arg := range n.Args {
				begins[arg] = begin
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Failing" || key.Name == "Working") {
				logs[n.Value] = true
			}
		}
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		s, ok := literal(e)
		if !ok {
			return true
		}
		s = begins[e] + strings.ReplaceAll(verb.ReplaceAllString(s, "…"), "%%", "%")
		if s, _, _ = strings.Cut(s, "\n"); words.MatchString(s) {
			found = append(found, textAt{shownText{text: s, log: logs[e]}, n.Pos()})
		}
		return false
	})
	return found
}

// logArgument returns which argument of a call is a line of the log: the first one of methods of loggers, but for
// those of a testing.TB.
func logArgument(call *ast.CallExpr) (int, bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return 0, false
	}
	if x, ok := f.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "http") {
		return 0, false
	}
	at, ok := map[string]int{"Info": 0, "Warn": 0, "Error": 0, "LogAttrs": 2, "logRefused": 1}[f.Sel.Name]
	return at, ok && len(call.Args) > at
}

// beginOf is what a function puts before the texts that it gets.
func beginOf(call *ast.CallExpr) string {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	return map[string]string{
		"wrong":   "rules: not valid: … ", // rules.Error
		"invalid": "limit: …: … must be ", // engine.invalid
	}[name]
}

// literal returns the text of a string literal, or of several strings that are joined.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BinaryExpr:
		x, left := literal(e.X)
		y, right := literal(e.Y)
		if e.Op != token.ADD || !left && !right {
			return "", false
		}
		if !left {
			x = "…"
		}
		if !right {
			y = "…"
		}
		return x + y, true
	}
	return "", false
}
