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

// surface lists the exported constants, variables, functions, types and methods of a
// package, sorted.
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
		if i, ok := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.InterfaceType); ok {
			for _, m := range i.Methods.List {
				for _, name := range m.Names {
					if name.IsExported() {
						names = append(names, "func "+typ.Name+"."+name.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
