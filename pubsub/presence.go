package pubsub

import (
	"context"
	"fmt"
)

// Presence knows who is in a topic, in this process or across many. It is apart
// from a [Broker]: who is seen in a topic need not be subscribed to it, and most who
// are subscribed need not be seen.
//
// A member is in a topic from Join to Leave, or until its process is gone: an
// implementation across processes says after what time the members of one that was
// killed are gone. All methods may be called from any goroutine, and a context is
// for the call it is given to alone.
//
// pubsubtest.RunPresence checks all of this.
type Presence interface {
	// Join puts a member into a topic; who has the same ID is replaced. When it
	// returns, Members has the member, in all processes. After an error the
	// member is not in the topic, or soon is not any more.
	Join(ctx context.Context, topic string, m Member) error

	// Leave takes a member that joined through this Presence out of a topic; for
	// any other it does nothing. It waits for nobody: Members of another process
	// may have the member a little longer.
	Leave(topic, id string)

	// Members returns who is in a topic, each once, in no particular order. The
	// caller may keep it, and must not change what Data points to.
	Members(ctx context.Context, topic string) ([]Member, error)
}

// Member is someone in a topic.
type Member struct {
	// ID tells members of a topic apart; it is not empty. A router takes the id
	// of the connection.
	ID string
	// User is who it is, which several members may be at once; empty: nobody
	// known.
	User string
	// Data is what others are to know of the member.
	Data []byte
}

// MaxMember bounds a member: its ID, its User and its Data together, in bytes. All
// members of a topic are read at once.
const MaxMember = 4 << 10

// Check returns an error for a member that no Presence takes: one without an ID, or
// larger than [MaxMember].
func (m Member) Check() error {
	if m.ID == "" {
		return fmt.Errorf("pubsub: the member has no ID")
	}
	if n := len(m.ID) + len(m.User) + len(m.Data); n > MaxMember {
		return fmt.Errorf("pubsub: the member has %d bytes, ID, User and Data together; %d are allowed", n, MaxMember)
	}
	return nil
}
