package ratelimit

import (
	_ "embed"
	"slices"
)

//go:embed rules.schema.json
var rulesSchema []byte

// RulesSchema returns the JSON Schema (2020-12) of the document that [ParseRules] reads, which is
// rules.schema.json in the folder of this package. Editors complete and check rules by it.
//
// Every document that ParseRules accepts is valid. A valid document has the right names, types and
// ranges; ParseRules also checks what a schema cannot, such as addresses, costs above a burst, and
// subjects that are there twice. (To a schema 60.0 is a whole number; ParseRules refuses it.)
func RulesSchema() []byte { return slices.Clone(rulesSchema) }
