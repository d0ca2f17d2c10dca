// Package engine decides limits. A [Plan] has the algorithms as pure functions on integers:
// bucket.go, fixedwindow.go, slidingwindow.go and slidinglog.go, and parts.go for several at
// once. An [Engine] keeps the states of keys in this process and applies plans to them:
// engine.go for one key, several.go for several together, shared.go for keys without room.
//
// Package limit documents what the algorithms promise, and is the layer for users.
package engine
