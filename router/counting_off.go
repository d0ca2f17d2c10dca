//go:build wskit_uncounted

package router

const counting = false
