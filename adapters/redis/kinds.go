package redis

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// kinds counts errors by their kind.
type kinds struct {
	mu    sync.Mutex
	count map[string]int64
}

// maxKinds bounds how many kinds are counted apart. Others are "ERR".
const maxKinds = 32

func (k *kinds) add(err error, n int64) {
	if n == 0 {
		return
	}
	kind := kindOf(err)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.count == nil {
		k.count = map[string]int64{}
	}
	if _, known := k.count[kind]; !known && len(k.count) >= maxKinds {
		kind = "ERR"
	}
	k.count[kind] += n
}

func (k *kinds) all() map[string]int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.count)
}

// kindOf is the word that an error of Redis begins with, or else "timeout", "canceled",
// "connection" or "other".
func kindOf(err error) string {
	if answer, ok := errors.AsType[goredis.Error](err); ok {
		text := answer.Error()
		// Before Redis 7, the error of a command in a script stands within that of the
		// script.
		if _, inner, ok := strings.Cut(text, ": -"); ok {
			text = inner
		}
		word, _, _ := strings.Cut(text, " ")
		if word == "" || len(word) > 32 || strings.ContainsFunc(word, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			return "ERR"
		}
		return word
	}
	network, ok := errors.AsType[net.Error](err)
	switch {
	case ok && network.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case ok, errors.Is(err, io.EOF), errors.Is(err, goredis.ErrClosed):
		return "connection"
	}
	return "other"
}
