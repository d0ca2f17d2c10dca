package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

//go:embed limit.lua
var script string

// scriptID is the name under which a server keeps the script.
var scriptID = func() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}()
