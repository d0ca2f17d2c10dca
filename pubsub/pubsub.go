// Package pubsub is the contract between a router and what carries published
// messages between processes.
//
// A router keeps the members of its topics itself and delivers to them; it asks
// a [Broker] for a topic only while the topic has members in this process. So a
// broker carries each message once to each process, however many connections
// wait for it there.
package pubsub

import (
	"context"
	"errors"
)

// Message is one message on its way to the subscribers of a topic.
type Message struct {
	Topic string
	// Frame is the encoded message. It is shared by all who receive it and
	// never changed.
	Frame []byte
	// Overflow says what a subscriber does with it when its queue is full. A
	// broker carries the value without knowing its meaning.
	Overflow uint8
	// Key groups messages of which only the latest matters; empty: none.
	Key string
	// Except is the id of a connection that does not get the message, usually
	// the sender's; empty: none.
	Except string
	// More says, to a subscriber, that the next message of the subscription is
	// there already: what serves several messages, such as a flush, may wait for
	// the first without More, or for the subscription to be closed. A broker
	// sets it or never does; to Publish it means nothing.
	More bool
}

// Broker carries messages from publishers to subscribers, in this process or
// across many.
//
// Delivery is at most once, and in order for the messages that one publisher
// sends to one topic one after the other. A topic's name is any bytes but none;
// names are equal only byte for byte. All methods may be called from any
// goroutine, and a context is for the call it is given to alone.
//
// pubsubtest.Run checks all of this.
type Broker interface {
	// Publish hands the message to every subscription of its topic that
	// existed before the call. It returns an error when the message is known
	// to have been lost; nil does not promise that anybody received it.
	Publish(ctx context.Context, m Message) error

	// Subscribe begins to deliver a topic's messages. deliver is called for
	// one message of the topic at a time and must not block, nor call the
	// broker. When Subscribe returns, the subscription is in place; it lasts
	// until it is closed, whatever becomes of ctx. Subscribe may wait for the
	// network, but returns soon after ctx is over.
	//
	// Neither Subscribe nor Close waits for a call of deliver that is running:
	// its caller may hold a lock that deliver needs.
	Subscribe(ctx context.Context, topic string, deliver func(Message)) (Subscription, error)
}

// Subscription is one subscriber's interest in a topic.
type Subscription interface {
	// Close ends the delivery. It does not wait for the network: connections that
	// end close the subscriptions of their topics. A call of deliver that is
	// running may still be running when Close returns; no other begins after it.
	// Closing twice is harmless.
	Close() error
}

// ErrClosed is returned by a broker that has been closed.
var ErrClosed = errors.New("pubsub: broker closed")
