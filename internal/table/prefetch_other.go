//go:build !amd64 && !arm64

package table

func prefetch(*int64) {}
