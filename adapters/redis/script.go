package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

//go:embed limit.lua
var script string

//go:embed hold.lua
var holdScript string

// The names under which a server keeps the scripts.
var (
	scriptID     = nameOf(script)
	holdScriptID = nameOf(holdScript)
)

func nameOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}
