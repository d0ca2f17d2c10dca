package contract_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Each rule that docs/contract.md lists with keywords is in a type whose schema is compared with
// the server.
func TestEachDocumentedRuleIsCompared(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| rule | of | keywords |\n")
	compared := make(map[string]bool)
	for _, rt := range written {
		rulesIn(rt.of, compared, map[reflect.Type]bool{})
	}
	n := 0
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.ReplaceAll(row, `\|`, "/"), "|")
		if len(cells) < 4 || strings.Contains(cells[3], "x-validate") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			if n++; !compared[m[1]] && m[1] != "a/b" {
				t.Errorf("%s is in no type", m[1])
			}
		}
	}
	if n < 50 {
		t.Errorf("%d rules found in docs/contract.md; has its form changed?", n)
	}
}

// rulesIn collects the names of all rules in a type.
func rulesIn(t reflect.Type, names map[string]bool, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		rulesIn(t.Elem(), names, seen)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for f := range t.Fields() {
			for _, rule := range strings.FieldsFunc(f.Tag.Get("validate"), func(r rune) bool { return r == ',' || r == '|' }) {
				name, _, _ := strings.Cut(rule, "=")
				names[name] = true
			}
			rulesIn(f.Type, names, seen)
		}
	}
}
