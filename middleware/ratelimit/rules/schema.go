package rules

import (
	_ "embed"
	"slices"
)

//go:embed rules.schema.json
var rulesSchema []byte

// Schema returns the JSON Schema (2020-12) of the document that [Parse] reads, which is
// rules.schema.json in the folder of this package. Editors complete and check rules by it.
//
// Every document that Parse accepts is valid. A valid document has the right names, types and
// ranges; Parse also checks what a schema cannot, such as addresses, costs above a burst, and
// subjects that are there twice. (To a schema 60.0 is a whole number; Parse refuses it.)
func Schema() []byte { return slices.Clone(rulesSchema) }
