package house

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestExportedIdentifiersAreDocumented(t *testing.T) {
	for _, p := range list(t, "./...") {
		if !public(p) {
			continue
		}
		t.Run(strings.TrimPrefix(p.ImportPath, module+"/"), func(t *testing.T) {
			d, fset := docOf(t, p)
			c := checker{t, fset}
			c.check(d)
		})
	}
}

// public reports whether users may import a package.
func public(p listed) bool {
	rel := strings.TrimPrefix(p.ImportPath, module+"/")
	return p.Name != "main" && !strings.Contains("/"+rel, "/internal/") && len(p.GoFiles) > 0 &&
		!within(p.ImportPath, module+"/docs") && !within(p.ImportPath, module+"/examples")
}

// docOf reads the documentation of a package.
func docOf(t *testing.T, p listed) (*doc.Package, *token.FileSet) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	d, err := doc.NewFromFiles(fset, files, p.ImportPath)
	if err != nil {
		t.Fatal(err)
	}
	return d, fset
}

type checker struct {
	t    *testing.T
	fset *token.FileSet
}

func (c checker) missing(pos token.Pos, what, name string) {
	at := c.fset.Position(pos)
	c.t.Errorf("%s:%d: exported %s %s has no doc comment", filepath.Base(at.Filename), at.Line, what, name)
}

func (c checker) check(d *doc.Package) {
	if d.Doc == "" {
		c.t.Errorf("package %s has no doc comment", d.Name)
	}
	c.values(d.Consts)
	c.values(d.Vars)
	c.funcs("function", d.Funcs)
	for _, typ := range d.Types {
		c.values(typ.Consts)
		c.values(typ.Vars)
		c.funcs("function", typ.Funcs)
		if !ast.IsExported(typ.Name) {
			continue
		}
		if typ.Doc == "" {
			c.missing(typ.Decl.Pos(), "type", typ.Name)
		}
		c.funcs("method", typ.Methods)
		c.members(typ)
	}
}

func (c checker) funcs(what string, all []*doc.Func) {
	for _, f := range all {
		if ast.IsExported(f.Name) && f.Doc == "" {
			c.missing(f.Decl.Pos(), what, f.Name)
		}
	}
}

// values checks constants and variables: each has a comment, or its group has one.
func (c checker) values(groups []*doc.Value) {
	for _, g := range groups {
		if g.Doc != "" {
			continue
		}
		for _, spec := range g.Decl.Specs {
			s := spec.(*ast.ValueSpec)
			for _, name := range s.Names {
				if name.IsExported() && s.Doc == nil && s.Comment == nil {
					c.missing(name.Pos(), g.Decl.Tok.String(), name.Name)
				}
			}
		}
	}
}

// options are types whose fields may be left out.
var options = regexp.MustCompile(`Options$|^(Limits|Liveness)$`)

// members checks the methods of interfaces and the fields of structs, because their
// contracts and defaults are documented nowhere else. The comment of the type, or of another
// field, may document one by naming it.
func (c checker) members(typ *doc.Type) {
	for _, spec := range typ.Decl.Specs {
		s, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		var fields *ast.FieldList
		what := "method"
		switch x := s.Type.(type) {
		case *ast.InterfaceType:
			fields = x.Methods
		case *ast.StructType:
			fields, what = x.Fields, "field"
		default:
			continue
		}
		said := typ.Doc
		for _, f := range fields.List {
			said += f.Doc.Text() + f.Comment.Text()
		}
		for _, f := range fields.List {
			for _, name := range f.Names {
				spokenFor := regexp.MustCompile(`\b` + name.Name + `\b`).MatchString(said)
				if name.IsExported() && f.Doc == nil && f.Comment == nil && !spokenFor {
					c.missing(name.Pos(), what, s.Name.Name+"."+name.Name)
				}
				if name.IsExported() && options.MatchString(s.Name.Name) && !strings.Contains(f.Doc.Text(), "Default") {
					c.t.Errorf("%s: the comment of %s.%s does not say its default", c.fset.Position(name.Pos()), s.Name.Name, name.Name)
				}
			}
		}
	}
}

// needed are the functions whose options have a field that must be set.
var needed = []string{"api.Handler", "inspect.Handler", "limit.NewConcurrencyLimit", "rules.DryRun", "webhook.New"}

// TestOptionsAreLast checks that options come last, and may be left out unless one of them has to be set: then a call
// without them would only compile.
func TestOptionsAreLast(t *testing.T) {
	var found []string
	for _, p := range list(t, "./...") {
		if !public(p) {
			continue
		}
		d, fset := docOf(t, p)
		all := d.Funcs
		for _, typ := range d.Types {
			all = append(append(all, typ.Funcs...), typ.Methods...)
		}
		for _, f := range all {
			params := f.Decl.Type.Params.List
			for i, param := range params {
				name, variadic := paramType(param.Type)
				if !strings.HasSuffix(name, "Options") || !ast.IsExported(f.Name) || variadic && i == len(params)-1 {
					continue
				}
				if full := p.Name + "." + f.Name; !slices.Contains(needed, full) {
					t.Errorf("%s: %s takes %s; take ...%[3]s, last, and read them with package given", fset.Position(f.Decl.Pos()), full, name)
				} else {
					found = append(found, full)
				}
			}
		}
	}
	for _, name := range needed {
		if !slices.Contains(found, name) {
			t.Errorf("%s needs no options any more; remove it from the list", name)
		}
	}
}

// paramType returns the name of the type of a parameter without its package, and whether the parameter is variadic.
func paramType(e ast.Expr) (name string, variadic bool) {
	if list, ok := e.(*ast.Ellipsis); ok {
		e, variadic = list.Elt, true
	}
	if sel, ok := e.(*ast.SelectorExpr); ok {
		e = sel.Sel
	}
	if id, ok := e.(*ast.Ident); ok {
		name = id.Name
	}
	return name, variadic
}
