// Package pattern has the patterns of topics that options take: a name, or the beginning of names followed by "*".
package pattern

import "strings"

// Covers reports whether a pattern is for a topic, or for all of another pattern.
func Covers(pattern, topic string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return pattern == topic || wild && strings.HasPrefix(topic, prefix)
}
