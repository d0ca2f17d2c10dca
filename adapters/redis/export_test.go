package redis

// Slot is for tests.
func Slot(key string) int { return slot(key) }

// ScriptID is the name of the script at a server.
var ScriptID = scriptID
