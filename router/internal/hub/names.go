package hub

import (
	"strings"
	"unicode/utf8"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
)

// Types of messages about topics.
const (
	typeGap          = "$ws:gap"
	typeRedacted     = "$ws:redacted"
	typeReset        = "$ws:reset"
	typeSubscribed   = "$ws:subscribed"
	typeUnsubscribed = "$ws:unsubscribed"
)

// History is what was declared for topics.
type History struct {
	Log    pubsub.Log
	Kept   pubsub.History
	Replay int // messages that are sent to a client that resumes; 0: all
}

// ErrNoHistory is the error for topics for which no history was declared.
var ErrNoHistory = errors.Internal.New("router: the topic has no history; declare it with Router.History")

// MaxTopicLength bounds the name of a topic, in bytes.
const MaxTopicLength = 256

// ReservedTopics is how the names of topics begin that are not the application's.
const ReservedTopics = "$ws:"

// IsReserved reports whether a topic is not the application's.
func IsReserved(topic string) bool { return strings.HasPrefix(topic, ReservedTopics) }

// CheckTopic says what is wrong with the name of a topic of the application.
func CheckTopic(name string) error {
	if name == "" || len(name) > MaxTopicLength {
		return errors.InvalidArgument.Errorf("a topic's name has 1 to %d bytes, this one %d", MaxTopicLength, len(name))
	}
	if !utf8.ValidString(name) { // two of them would be one for clients, which replace what is not
		return errors.InvalidArgument.New("a topic's name is UTF-8, and this one is not")
	}
	if IsReserved(name) {
		return errors.InvalidArgument.Errorf("names of topics that begin with %q are reserved", ReservedTopics)
	}
	return nil
}

// ErrReserved is the error for types of the protocol where one of the application is expected.
var ErrReserved = errors.InvalidArgument.New("message type is reserved for the protocol")
