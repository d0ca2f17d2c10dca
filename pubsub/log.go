package pubsub

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

// Log is a [Broker] that can keep the messages of a topic in a log, so that subscribers that
// missed some can read them. Messages that are appended are in the log and are delivered;
// those that are published are only delivered. A topic gets one or the other.
//
// pubsubtest.RunLog checks all of this.
type Log interface {
	Broker

	// Append adds a message to the log of its topic, begins the log if there is none, and
	// delivers the message to every subscription that existed before the call, with
	// Message.Position and Message.Previous. Deliveries are in the order of the log. It returns the
	// position of the message.
	//
	// A subscription that is made while Append runs gets the message, unless a Read after Subscribe
	// has it: a subscriber that subscribes first and then reads misses nothing, and may get twice
	// what was appended in between.
	//
	// id makes it safe to repeat the call: an Append with the id of an earlier one to the same
	// topic, at most [IDWindow] before and in the same epoch, adds and delivers nothing, and
	// returns the earlier position. An empty id is never the same as another.
	//
	// After an error the message may be in the log or not. A nil error means that the log has it; what
	// a failure of the store can take away again is for the implementation to document.
	Append(ctx context.Context, m Message, h History, id string) (Position, error)

	// Read returns messages of a log, and begins the log if there is none: so a subscriber of
	// a new topic has a position, too.
	Read(ctx context.Context, topic string, h History, r ReadOptions) (Page, error)

	// Heads returns the position of the last message of each log, in the order of the topics; the
	// zero Position for a topic without a log. It begins no log, and keeps those that there are.
	Heads(ctx context.Context, topics []string) ([]Position, error)
}

// Replacer is a [Log] whose messages can be replaced: an application has to take back what a user has published. A
// router needs it for Router.Redact. pubsubtest.RunLog checks it where a Log has it.
type Replacer interface {
	Log

	// Replace gives the message at a position another frame, for all that read it from then on. Positions and ids stay
	// as they are, and nothing is delivered. For History.Bytes the message may count as before. Replace reports false,
	// and changes nothing, if the log does not have the message, or not any more; it begins no log.
	Replace(ctx context.Context, topic string, at Position, frame []byte) (replaced bool, err error)
}

// History is how much of a topic its log keeps. Older messages are removed as soon as
// there are more than Messages, or together more than Bytes, or when they are older than Age; the
// last message is kept in spite of Bytes. All three must be positive.
//
// The position of the last message is kept longer than the message. A log ends no earlier than after
// a time without an Append, a Read or a Heads of its topic: twice Age, and at least [IDWindow]. Then the
// next call begins a new one, with a new epoch.
//
// All calls for a topic should have the same History. If they differ, an Append removes what is too
// much for its own.
type History struct {
	Messages int           // at most
	Bytes    int           // of their frames, at most
	Age      time.Duration // in whole milliseconds
}

// Check returns an error if a bound is not positive.
func (h History) Check() error {
	if h.Messages <= 0 || h.Bytes <= 0 || h.Age < time.Millisecond {
		return fmt.Errorf("pubsub: History{Messages: %d, Bytes: %d, Age: %v}; Messages and Bytes must be positive, and Age at least 1ms", h.Messages, h.Bytes, h.Age)
	}
	return nil
}

// IDWindow is the least time for which the id of an Append is kept.
const IDWindow = 2 * time.Minute

// MaxIDLength is the size of the longest id of an Append, in bytes.
const MaxIDLength = 128

// ReadOptions say what is read of a log. The zero value reads nothing but the head.
type ReadOptions struct {
	// From is a position that was seen; the page has the messages after it, or before it with
	// Backwards. The zero Position is the place before the oldest message that is
	// kept, and with Backwards for the place after the newest.
	//
	// A position can be read from while it is the head, or the message after it is kept. With
	// Backwards the message at the position has to be kept, or it is the head.
	//
	// Default: before the oldest message.
	From Position
	// Backwards reads towards older messages. The page is in the order of the log in any case.
	//
	// Default: false.
	Backwards bool
	// Messages is how many messages the page has at most.
	//
	// Default: none; it must be set.
	Messages int
	// Bytes is the size of their frames, at most, except that the first one may have any size.
	//
	// Default: none; it must be set.
	Bytes int
}

// Page is a part of a log: what was in it at one moment. It has as many messages as the bounds
// of ReadOptions allow.
type Page struct {
	// Messages are in the order of the log, without holes: with From, they begin directly after it,
	// or with Backwards end directly before it.
	Messages []Message
	// Head is the position of the last message of the log, also if that has been removed for
	// its age. In a log without any, the offset is 0.
	Head Position
	// More says that the log has more messages in the direction that was read.
	More bool
	// Lost says that nothing could be read from From, and why. Then the page has no messages.
	Lost Loss
}

// Loss is the reason why a log cannot be read from a position.
type Loss string

const (
	// LossNone means that the log can be read from the position.
	LossNone Loss = ""
	// LossEpoch means that the log of the position has ended or was lost, and another one was begun.
	LossEpoch Loss = "epoch"
	// LossTrimmed means that messages after the position have been removed from the log; with
	// ReadOptions.Backwards, that the one at the position has been.
	LossTrimmed Loss = "trimmed"
	// LossRewound means that the log does not have the message at the position any more although it
	// is not older than those that are kept: the store has lost the end of the log, and may have given
	// its offsets to other messages.
	LossRewound Loss = "rewound"
)

// Position identifies a message of a log, or the place before its first message. The zero
// Position is no position.
type Position struct {
	// Epoch is a random number, not 0, that was made when the log was begun.
	Epoch uint64
	// Offset counts the messages of a log: 1, 2, 3 and so on, without holes. 0 is the place
	// before the first message.
	Offset uint64
	// Tag is a random number, not 0, that was made for the message. It is 0 if Offset is. A store
	// that has lost the last messages of a log gives their offsets to others, with other tags.
	Tag uint32
}

// String returns the position as text of at most 27 characters, for clients that keep it. It has no meaning
// to them.
func (p Position) String() string {
	var b [positionBytes]byte
	binary.BigEndian.PutUint64(b[:], p.Epoch)
	binary.BigEndian.PutUint32(b[8:], p.Tag)
	binary.BigEndian.PutUint64(b[12:], p.Offset)
	var text [positionText]byte
	base64.RawURLEncoding.Encode(text[:], b[:])
	return string(text[:])
}

const (
	positionBytes = 8 + 4 + 8
	positionText  = 27 // in base64
)

var positionCoding = base64.RawURLEncoding.Strict()

// ParsePosition reads what String returned. It accepts no other text for the same position.
func ParsePosition(s string) (Position, error) {
	var text [positionText]byte
	var b [positionBytes]byte
	copy(text[:], s)
	n, err := positionCoding.Decode(b[:], text[:])
	if err != nil || n != len(b) || len(s) != len(text) {
		return Position{}, fmt.Errorf("pubsub: %.40q is no position", s)
	}
	p := Position{
		Epoch:  binary.BigEndian.Uint64(b[:]),
		Tag:    binary.BigEndian.Uint32(b[8:]),
		Offset: binary.BigEndian.Uint64(b[12:]),
	}
	if p.Epoch == 0 || (p.Tag == 0) != (p.Offset == 0) || p.Offset > maxOffset {
		return Position{}, fmt.Errorf("pubsub: %.40q is no position", s)
	}
	return p, nil
}

// maxOffset is the largest offset: a float64 has each integer up to it.
const maxOffset = 1<<53 - 1
