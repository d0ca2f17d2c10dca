package contract_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/router"
)

// The module compiles, strictly and with erasable syntax alone, and the replies of a server are
// values of its types: for all types of this package, many replies of each.
func TestTypeScriptCompilesAndFitsReplies(t *testing.T) {
	r := router.New()
	for _, rt := range routes {
		rt.register(r)
	}
	c, err := contract.Of(r)
	if err != nil {
		t.Fatal(err)
	}
	var program strings.Builder
	program.WriteString("import type { Contract } from './contract';\ntype R = Contract['requests'];\n")
	ws := dial(t, r)
	for i, rt := range routes {
		g := &generator{Rand: rand.New(rand.NewPCG(uint64(i), 2)), strict: rt.strict}
		payloads := make([]string, 100)
		for j := range payloads {
			payloads[j] = g.payload(rt.of)
		}
		n := 0
		for j, a := range ask(t, ws, rt.name, payloads) {
			if a.refused != "" || a.reply == "" || n >= 20 {
				continue
			}
			n++
			fmt.Fprintf(&program, "export const r%d_%d: R[%q]['reply'] = %s;\n", i, j, rt.name, a.reply)
		}
	}
	compileTypeScript(t, map[string]string{"contract.d.ts": string(c.TypeScript()), "program.ts": program.String()})
}

// compileTypeScript fails the test if the files do not compile. want are errors that there have to be.
func compileTypeScript(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{
		filepath.Join("node_modules", "typescript", "bin", "tsc"), "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess",
		"--erasableSyntaxOnly", "--isolatedModules", "--verbatimModuleSyntax", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--types", "",
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	node(t, nil, args...)
}

// A program that uses the types as a client does: what fits compiles, and what does not fit is an
// error of the compiler.
func TestTypeScriptOfAProgram(t *testing.T) {
	type Join struct {
		Room  string  `json:"room" validate:"required"`
		Color string  `json:"color,omitempty" validate:"omitempty,oneof=red green"`
		Note  *string `json:"note"`
	}
	type Joined struct {
		Members []string `json:"members"`
	}
	r := router.New()
	router.RPC(r, "room.join", func(*router.Context, Join) (Joined, error) { return Joined{}, nil }, router.RouteOptions{Progress: 0.5})
	router.RPC(r, "room.leave", func(*router.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	router.On(r, "typing", func(*router.Context, *Join) error { return nil })
	router.Declare[Joined](r, "joined")
	router.DeclareQuestion[Joined, bool](r, "sure")
	c, err := contract.Of(r)
	if err != nil {
		t.Fatal(err)
	}
	compileTypeScript(t, map[string]string{"contract.d.ts": string(c.TypeScript()), "program.ts": `
import type { Contract, Join } from './contract';
type Q = Contract["requests"];
export const ok: Q["room.join"]["request"][] = [
  { room: "a" }, { room: "a", color: "red" }, { room: "a", note: null }, { room: "a", note: "b" },
];
// @ts-expect-error room is needed
export const a: Join = {};
// @ts-expect-error blue is no color
export const b: Join = { room: "a", color: "blue" };
// @ts-expect-error there is no such member
export const c: Join = { room: "a", rom: "b" };
export const reply: Q["room.join"]["reply"] = { members: [] };
// @ts-expect-error a list is never null
export const d: Q["room.join"]["reply"] = { members: null };
export const progress: Q["room.join"]["progress"] = 0.5;
export const nothing: Q["room.leave"]["request"] = undefined;
export const sends: Contract["sends"]["typing"][] = [undefined, null, { room: "a" }];
export const answer: Contract["questions"]["sure"]["answer"] = true;
// @ts-expect-error no such type
export type E = Q["room.jon"];
export type F = [keyof Contract["events"], keyof Contract["questions"]];
export const f: F = ["joined", "sure"];
`})
}
