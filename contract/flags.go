package contract

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/wskit/wskit/errors"
)

// Flags adds two flags to a program:
//
//	-contract ts|schema|asyncapi     writes a document to the standard output
//	-contract-check contract.d.ts    compares a file with the document that the program would write
//
// Either ends the program when the flags are parsed, before the server starts: with 0, or with 1
// and an error, which has the lines in which a file differs. of makes the contract, of a router
// that is not served.
//
//	contract.Flags(flag.CommandLine, func() (*contract.Contract, error) {
//		return contract.Of(newRouter())
//	})
//	flag.Parse()
func Flags(flags *flag.FlagSet, of func() (*Contract, error)) {
	flags.Func("contract", "write the messages of this server to the standard output, as `ts`, schema or asyncapi, and exit", func(kind string) error {
		c, err := of()
		if err != nil {
			exit(err)
			return nil
		}
		document := map[string][]byte{"ts": c.typescript, "schema": c.schema, "asyncapi": c.asyncapi}[kind]
		if document == nil {
			return errors.New("it is none of ts, schema and asyncapi")
		}
		_, err = stdout.Write(document)
		exit(err)
		return nil
	})
	flags.Func("contract-check", "compare `file` (.ts, or .json with asyncapi or schema in its name) with what -contract writes, and exit with 1 if it differs", func(file string) error {
		c, err := of()
		if err == nil {
			err = c.Check(file)
		}
		exit(err)
		return nil
	})
}

// The tests replace what ends the program.
var (
	stdout io.Writer = os.Stdout
	exit             = func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
)

// Check returns an error with the lines that differ if a file is not the document as it is now.
// The name of the file says which document: it ends with .ts, or with .json and has asyncapi or
// schema in it.
func (c *Contract) Check(file string) error {
	name := filepath.Base(file)
	kind, document := "", []byte(nil)
	switch {
	case strings.HasSuffix(name, ".ts"):
		kind, document = "ts", c.typescript
	case strings.HasSuffix(name, ".json") && strings.Contains(name, "asyncapi"):
		kind, document = "asyncapi", c.asyncapi
	case strings.HasSuffix(name, ".json") && strings.Contains(name, "schema"):
		kind, document = "schema", c.schema
	default:
		return fmt.Errorf("contract: the name of %s does not say which document it is; it must end with .ts, or with .json and have asyncapi or schema in it", file)
	}
	have, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("contract: %w; write it with -contract %s", err, kind)
	}
	have = bytes.ReplaceAll(have, []byte("\r\n"), []byte("\n")) // a checkout on Windows
	if !bytes.Equal(have, document) {
		return fmt.Errorf("contract: %s is not what the program writes now; write it again with -contract %s:\n%s", file, kind, diff(string(have), string(document)))
	}
	return nil
}
