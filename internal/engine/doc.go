// Package engine decides limits. A [Plan] has the algorithms as pure functions on integers:
// bucket.go, fixedwindow.go, slidingwindow.go and slidinglog.go, and parts.go for composites.
// An [Engine] keeps the states of keys in this process and applies plans to them:
// engine.go for one key, several.go for several together, shared.go for keys that find the
// tables full.
//
// Package limit is the layer for users, and documents the guarantees of the algorithms.
package engine
