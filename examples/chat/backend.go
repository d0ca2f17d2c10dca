package main

import (
	"io"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// Backend is where a chat keeps what outlives a connection. With one in memory a
// server is alone; those that share a Redis are one chat.
type Backend struct {
	Limits      limit.Store     // of messages
	Connections limit.Store     // of connections; a limit.Holder
	Broker      pubsub.Broker   // what is published; nil: to this server's tabs alone
	Presence    pubsub.Presence // who is in which room
	History     History         // the latest messages
	// Shared says that other servers use it, too.
	Shared bool

	closers []io.Closer // in the order of closing
}

func inMemory() Backend {
	store := memory.NewStore(memory.Options{})
	return Backend{
		Limits: store, Connections: store,
		Presence: memory.NewPresence(),
		History:  newMemoryHistory(),
	}
}

// Close lets go of what the backend holds.
func (b Backend) Close() error {
	var errs []error
	for _, c := range b.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
