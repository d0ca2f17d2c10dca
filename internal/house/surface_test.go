package house

import (
	"flag"
	"go/ast"
	"go/doc"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of this package")

// TestSurface compares the exported names of every public package with a golden
// file, so that a change of the public API is visible in the commit that makes it.
func TestSurface(t *testing.T) {
	var names []string
	for _, p := range list(t, "./...") {
		if !public(p) {
			continue
		}
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, name := range surface(t, p) {
			names = append(names, rel+": "+name)
		}
	}
	got := strings.Join(names, "\n") + "\n"
	golden := filepath.Join("testdata", "surface.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSpace(string(want)), "\n")
	for _, name := range names {
		if !slices.Contains(before, name) {
			t.Errorf("new: %s", name)
		}
	}
	for _, name := range before {
		if !slices.Contains(names, name) {
			t.Errorf("gone: %s", name)
		}
	}
	if t.Failed() {
		t.Log("if the change of the public API is intended: go test ./internal/house -run TestSurface -update, and a line in CHANGELOG.md")
	}
}

// surface lists the exported constants, variables, functions, types, methods and fields of a package, sorted.
func surface(t *testing.T, p listed) (names []string) {
	t.Helper()
	d, _ := docOf(t, p)
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, name := range v.Names {
				if ast.IsExported(name) {
					names = append(names, v.Decl.Tok.String()+" "+name)
				}
			}
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			name := f.Name
			if f.Recv != "" {
				name = strings.TrimPrefix(f.Recv, "*") + "." + name
			}
			names = append(names, "func "+name)
		}
	}
	values(d.Consts)
	values(d.Vars)
	funcs(d.Funcs)
	for _, typ := range d.Types {
		names = append(names, "type "+typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
		switch x := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(type) {
		case *ast.InterfaceType:
			names = append(names, members("func", typ.Name, x.Methods)...)
		case *ast.StructType:
			names = append(names, members("field", typ.Name, x.Fields)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// members lists the exported names of an interface or a struct; an embedded type has the name of the type.
func members(what, typ string, list *ast.FieldList) (names []string) {
	for _, f := range list.List {
		for _, name := range f.Names {
			if name.IsExported() {
				names = append(names, what+" "+typ+"."+name.Name)
			}
		}
		if embedded := embeddedName(f); ast.IsExported(embedded) {
			names = append(names, what+" "+typ+"."+embedded)
		}
	}
	return names
}

// embeddedName returns the name of an embedded type, or an empty text.
func embeddedName(f *ast.Field) string {
	if len(f.Names) > 0 {
		return ""
	}
	e := f.Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			return x.Sel.Name
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
