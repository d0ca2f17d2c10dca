package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

//go:embed limit.lua
var script string

//go:embed leases.lua
var leaseScript string

//go:embed log.lua
var logScript string

// The names under which a server keeps the scripts.
var (
	scriptID      = nameOf(script)
	leaseScriptID = nameOf(leaseScript)
	logScriptID   = nameOf(logScript)
)

func nameOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}
