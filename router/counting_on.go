//go:build !wskit_uncounted

package router

// counting is false in a program that measures what counting costs, see bench/cmd/counting.
const counting = true
