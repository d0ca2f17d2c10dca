package errors_test

import (
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	stderrors "errors"

	"github.com/wskit/wskit/errors"
)

// packages type-checks the sources of the standard package and of ours.
var packages = sync.OnceValues(func() (std, ours *types.Package) {
	fset := token.NewFileSet()
	// One importer for both, so that a type they share is the same type.
	imp := importer.ForCompiler(fset, "gc", nil)
	std, err := imp.Import("errors")
	if err != nil {
		panic(err)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		panic(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		files = append(files, f)
	}
	ours, err = (&types.Config{Importer: imp}).Check("github.com/wskit/wskit/errors", fset, files, nil)
	if err != nil {
		panic(err)
	}
	return std, ours
})

// What has a name of the standard package has its signature, too.
func TestNamesOfTheStandardPackage(t *testing.T) {
	std, ours := packages()
	shared := 0
	for _, name := range ours.Scope().Names() {
		have, want := ours.Scope().Lookup(name), std.Scope().Lookup(name)
		if want == nil || !want.Exported() {
			continue
		}
		shared++
		if kind(have) != kind(want) || !types.Identical(have.Type(), want.Type()) {
			t.Errorf("%s differs from the standard package's %s; correct std.go", have, want)
		}
	}
	if shared != 5 {
		t.Errorf("%d names of the standard package, want those 5 that the package's doc lists", shared)
	}
}

// kind distinguishes functions, variables, constants and types.
func kind(o types.Object) string {
	word, _, _ := strings.Cut(o.String(), " ")
	return word
}

func TestCodesAreThoseOfTheProtocol(t *testing.T) {
	_, ours := packages()
	declared := make(map[errors.Code]bool)
	code := ours.Scope().Lookup("Code").Type()
	for _, name := range ours.Scope().Names() {
		if c, ok := ours.Scope().Lookup(name).(*types.Const); ok && types.Identical(c.Type(), code) {
			value := errors.Code(constant.StringVal(c.Val()))
			declared[value] = true
			if _, ok := retryable[value]; !ok {
				t.Errorf("%s = %q is not in the protocol's table", name, value)
			}
		}
	}
	for value := range retryable {
		if !declared[value] {
			t.Errorf("the protocol's %s is not declared", value)
		}
	}
}

// The same errors are found by this package and by the standard one.
func TestStandardFunctionsWork(t *testing.T) {
	plain := errors.New("plain")
	coded := errors.NotFound.Wrap(plain, "m")
	joined := errors.Join(io.EOF, coded)
	if !errors.Is(joined, plain) || !stderrors.Is(joined, plain) {
		t.Error("Is")
	}
	if e, ok := errors.AsType[*errors.Error](joined); !ok || e != coded {
		t.Error("AsType")
	}
	if errors.ErrUnsupported != stderrors.ErrUnsupported {
		t.Error("ErrUnsupported")
	}
}
