// Package contract has the tests of what package contract of the main module writes: with a
// validator of JSON Schema, the compiler of TypeScript and the parser of AsyncAPI.
package contract
