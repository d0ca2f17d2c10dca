package pubsub

import (
	"context"
	"fmt"
)

// Presence lists the members of topics, in one process or in several. It is independent of a
// [Broker]: members need not be subscribers, and most subscribers need not be members.
//
// A member is in a topic from Join to Leave, or until its process ends. An implementation for
// several processes documents the time after which the members of a killed process are removed.
// All methods may be called from any goroutine. A context applies only to the call.
//
// pubsubtest.RunPresence checks all of this.
type Presence interface {
	// Join adds a member to a topic; a member with the same ID is replaced. When it
	// returns, Members has the member in all processes. After an error the member is not in
	// the topic, or is removed soon.
	Join(ctx context.Context, topic string, m Member) error

	// Leave removes a member from a topic if it joined through this Presence, and else does
	// nothing. It does not block: in other processes Members may have the member a little
	// longer.
	Leave(topic, id string)

	// Members returns the members of a topic, each once, in no particular order. The caller
	// may keep the slice, and must not change the bytes of Data.
	Members(ctx context.Context, topic string) ([]Member, error)
}

// Member is a member of a topic.
type Member struct {
	// ID identifies the member within the topic; it is not empty. A router uses the id of
	// the connection.
	ID string
	// User is the user of the member. Several members may have the same user; empty means
	// not authenticated.
	User string
	// Data describes the member for others.
	Data []byte
}

// maxMember is the largest size of a member in bytes: ID, User and Data together. (All members
// of a topic are read at once.)
const maxMember = 4 << 10

// Check returns an error for a member that a Presence must refuse: one without an ID, or one
// larger than 4 KiB.
func (m Member) Check() error {
	if m.ID == "" {
		return fmt.Errorf("pubsub: the member has no ID")
	}
	if n := len(m.ID) + len(m.User) + len(m.Data); n > maxMember {
		return fmt.Errorf("pubsub: the member has %d bytes, ID, User and Data together; %d are allowed", n, maxMember)
	}
	return nil
}

// SharedPresence is a [Presence] whose members other processes list, too. A router refuses it without a broker that
// reaches them.
type SharedPresence interface {
	Presence

	// Shared reports whether other processes may list the members.
	Shared() bool
}

// PresenceWatcher is a [Presence] that reports changes. A router needs it to send
// changes to clients.
//
// pubsubtest.RunPresence checks it where a Presence has it.
type PresenceWatcher interface {
	Presence

	// Watch reports the members of a topic and then each change, until the subscription is closed,
	// also after the end of ctx. The first report is complete, and is made before Watch returns.
	// Reports are made one at a time, in order: the list has all changes from before it was read,
	// and each later change is in a later report. When changes were lost, the presence reads the
	// list again and reports it.
	//
	// A change by Join is reported at all watchers soon after Join returns, one by Leave soon after
	// Leave. Members of a process that was killed are reported as left within the time that the
	// implementation documents.
	//
	// report must not block, nor call the Presence.
	Watch(ctx context.Context, topic string, report func(PresenceReport)) (Subscription, error)
}

// PresenceReport is what a [PresenceWatcher] reports of a topic. Applying it twice has the same
// result.
type PresenceReport struct {
	// Complete says that Present holds all members: any other is not in the topic.
	Complete bool
	// Present are members that have joined or changed. The receiver must not change
	// what Data points to.
	Present []Member
	// Left are the IDs of members that are not in the topic any more.
	Left []string
}
