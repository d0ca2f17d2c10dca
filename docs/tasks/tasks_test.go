package tasks

import (
	"context"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"net/http"
	"strings"
	"testing"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// Each task needs at most so many lines of code, without imports, comments and types of its messages, and so many names
// of wskit besides those that every program has.
func TestTasksStayShort(t *testing.T) {
	t.Parallel()
	for file, most := range map[string]struct{ lines, names int }{
		"everything": {20, 29}, "limits": {20, 19}, "user": {9, 4}, "history": {15, 13}, "serve": {9, 4}, "room": {21, 13},
	} {
		lines, names := count(t, file+".go")
		t.Logf("%s: %d lines, %d names: %s", file, lines, len(names), strings.Join(names, " "))
		if lines > most.lines || len(names) > most.names {
			t.Errorf("%s has %d lines and %d names, want at most %d and %d: %v", file, lines, len(names), most.lines, most.names, names)
		}
	}
}

// count returns the lines of the functions of a file, and the exported names in them: of functions, types, methods and
// fields that are not of the standard library.
func count(t *testing.T, file string) (lines int, names []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	standard := map[string]bool{}
	for _, i := range f.Imports {
		if path := strings.Trim(i.Path.Value, `"`); !strings.Contains(path, ".") {
			standard[path[strings.LastIndex(path, "/")+1:]] = true
		}
	}
	seen := map[string]bool{"Router": true, "New": true, "Options": true, "Context": true, "On": true, "RPC": true}
	add := func(id *ast.Ident) {
		if id.IsExported() && !seen[id.Name] {
			seen[id.Name] = true
			names = append(names, id.Name)
		}
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var text strings.Builder
		if err := printer.Fprint(&text, fset, fn); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if !ok || !standard[x.Name] && x.Name != "mux" && x.Name != "l" {
					add(n.Sel)
				}
			case *ast.CompositeLit:
				of, ok := n.Type.(*ast.SelectorExpr)
				if !ok || standard[of.X.(*ast.Ident).Name] {
					return true
				}
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						add(kv.Key.(*ast.Ident))
					}
				}
			}
			return true
		})
	}
	return lines, names
}

// The tasks do what they say.
func TestTasks(t *testing.T) {
	t.Parallel()
	r := room()
	user(r)
	s := routertest.New(t, r)
	ann := s.Dial()
	routertest.ExpectReply[struct{}](ann.Request("room.join", "lobby"))
	s.Dial().Send("room.say", Letter{"lobby", "hello"})
	if m := routertest.ExpectEvent[Received](ann, "room.said"); m.Text != "hello" {
		t.Errorf("received %+v", m)
	}
	ann.Send("letter.send", Letter{"nobody", "hello"})

	s = routertest.New(t, history())
	first := s.Dial()
	routertest.ExpectReply[struct{}](first.Request("room.join", "lobby"))
	first.Send("room.say", Letter{"lobby", "before"})
	routertest.ExpectEvent[Received](first, "room.said")
	late := s.Dial()
	routertest.ExpectReply[struct{}](late.Request("room.join", "lobby"))
	if m := routertest.ExpectEvent[Received](late, "room.said"); m.Text != "before" {
		t.Errorf("the late one received %+v", m)
	}

	find := func(*router.Context, string) ([]string, error) { return []string{"found"}, nil }
	draw := func(*router.Context, string) error { return nil }
	c := routertest.New(t, limits(find, draw)).Dial()
	if got := routertest.ExpectReply[[]string](c.Request("search", "x")); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	guest := func(*http.Request) (ingress.Identity, error) { return ingress.Identity{User: "guest"}, nil }
	if err := everything(context.Background(), "redis://127.0.0.1:1", guest); err == nil {
		t.Error("it serves without Redis")
	}
	_ = serve // it would take a port: docs/deployment_test.go and examples/deploy run one
}
