// Package inspection is what package router shows to package inspect in addition to its exported names.
package inspection

import (
	"context"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// Of returns the inside of a *router.Router, whose package sets it.
var Of func(router any) Router

// Router is the inside of a router. Its methods may be called from any goroutine.
type Router interface {
	// Conns returns up to most of the open connections that match, the oldest ones first, and how many match.
	Conns(match func(*Conn) bool, most int) (list []Conn, n int)
	// Topics returns up to most of the topics with members that match, in the order of their names, and
	// how many match.
	Topics(match func(name string) bool, most int) (list []Topic, n int)
	// Close closes a connection. It reports false if there is none of the id.
	Close(id string, code errors.CloseCode, reason string) bool
	// Trace calls record with each message from and to the connections that match, from now on and those that
	// are opened later, until stop is called. record must be fast, and must not keep Payload. It is called
	// concurrently.
	Trace(match func(*Conn) bool, record func(Message)) (stop func())
	// Broker is Backend.Broker.
	Broker() pubsub.Broker
	// Context is cancelled when the router has been shut down.
	Context() context.Context
}

// Conn is an open connection.
type Conn struct {
	ID         string       `json:"id"`
	Tenant     string       `json:"tenant,omitzero"`
	User       string       `json:"user,omitzero"`
	Tier       string       `json:"tier,omitzero"`
	Roles      []string     `json:"roles,omitzero"`
	IP         string       `json:"ip"`
	OpenedAt   time.Time    `json:"openedAt"`
	LastAt     time.Time    `json:"lastAt,omitzero"` // of the last message from the client
	ExpiresAt  time.Time    `json:"expiresAt,omitzero"`
	Topics     []Membership `json:"topics,omitzero"`
	Queued     int          `json:"queued"` // bytes that the client has not taken
	Compressed bool         `json:"compressed,omitzero"`
}

// Membership is a topic of a connection.
type Membership struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until,omitzero"` // when it ends by itself
}

// Topic is a topic with members in this process.
type Topic struct {
	Name    string `json:"name"`
	Members int    `json:"members"`
	// Position is where its members are, if it has a history.
	Position string `json:"position,omitzero"`
}

// Message is a message from a client, or to one.
type Message struct {
	At      time.Time
	Conn    string
	Sent    bool   // by the server
	Payload []byte // the frame's text
}
