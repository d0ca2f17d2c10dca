// Package pubsub is the contract between a router and a broker, which delivers published
// messages to other processes.
//
// A router keeps the members of its topics itself and delivers to them. It subscribes to a
// topic at a [Broker] only while the topic has members in this process. So a broker sends each
// message once to each process, whatever the number of connections there.
package pubsub

import (
	"context"
	"errors"
)

// Message is a message to the subscribers of a topic.
type Message struct {
	Topic string
	// Frame is the encoded message. It is shared by all receivers and must not
	// be changed.
	Frame []byte
	// Overflow says what happens if the queue of a subscriber is full. A broker transports
	// the value without interpreting it. A router takes one that it does not know, as a later version may have, as
	// router.OverflowDropNewest.
	Overflow uint8
	// Key groups messages of which only the latest matters; empty: none.
	Key string
	// Except is the id of a connection that does not get the message, usually that of the
	// sender; empty: none.
	Except string
	// More means that the next message of the subscription is available already: work that can
	// serve several messages, such as a flush, may be deferred to the first message without More,
	// or to the end of the subscription. Brokers need not set it. Publish ignores it.
	More bool
	// Lost means that messages of the topic may have been lost before this one. Such a message has
	// a Topic and no Frame. A broker sends it where messages may be missing: its subscription was
	// made anew, or its buffer was full. Publish ignores it.
	Lost bool
	// Position is the place of a message in the log of its topic; zero for one that was not
	// appended. Append and Publish ignore it.
	Position Position
	// Previous is the tag of the message before it in the log, 0 for the first one. A subscriber
	// that has the message before Position.Offset with another tag has messages that
	// the log has lost.
	Previous uint32
}

// Broker delivers messages from publishers to subscribers, in one process or in several.
//
// Delivery is at most once, and in order for messages that one publisher sends to one topic one
// after the other. The name of a topic is any non-empty sequence of bytes; names are compared
// byte by byte. All methods may be called from any goroutine. A context applies only to the call.
//
// pubsubtest.Run checks all of this.
type Broker interface {
	// Publish delivers the message to every subscription of its topic that existed before
	// the call. It returns an error if the message is known to be lost. A nil error does not
	// mean that the message was received.
	Publish(ctx context.Context, m Message) error

	// Subscribe begins to deliver a topic's messages. deliver is called for
	// one message of the topic at a time and must not block, nor call the
	// broker. When Subscribe returns, the subscription is in place; it lasts
	// until it is closed, also after the end of ctx. Subscribe may wait for the
	// network, but returns soon after the end of ctx.
	//
	// Neither Subscribe nor Close waits for a running call of deliver: the caller may hold
	// a lock that deliver needs.
	Subscribe(ctx context.Context, topic string, deliver func(Message)) (Subscription, error)
}

// ReceiverCounter is a [Broker] that counts the receivers to which a message was sent. A router
// needs it to find out whether all processes have answered.
//
// pubsubtest.Run checks brokers that have it.
type ReceiverCounter interface {
	Broker

	// PublishCounted is Publish, and returns how many receivers the message was sent to: at
	// least one for each process with a subscription of the topic, at most one for each
	// subscription. A process whose subscription is being made anew is not counted.
	PublishCounted(ctx context.Context, m Message) (receivers int, err error)
}

// Subscription is the subscription of one subscriber to one topic.
type Subscription interface {
	// Close ends the delivery. It does not wait for the network, because the end of a
	// connection closes subscriptions. A call of deliver may still be running when Close
	// returns; no call begins after it. A second Close does nothing.
	Close() error
}

// ErrClosed is returned by a broker that has been closed.
var ErrClosed = errors.New("pubsub: broker closed")
