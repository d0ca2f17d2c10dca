// Package verify checks wskit with tools of other projects, which the main module must not depend
// on: a validator of JSON Schema, a checker of linearizability, the compiler of TypeScript and the
// parser of AsyncAPI.
package verify
