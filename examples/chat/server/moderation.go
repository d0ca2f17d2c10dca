package server

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"net/netip"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

// Messages from moderators: tabs that were opened with the key of newModeratorKey.
type (
	// Removed is a message of the moderator's room.
	Removed struct {
		Pos string `json:"pos" validate:"required,max=27"`
	}
	// Other is a member of the moderator's room.
	Other struct {
		ID string `json:"id" validate:"required,hexadecimal,max=16"`
	}
)

const (
	moderator = "moderator" // a role
	banTime   = 10 * time.Minute
)

// newModeratorKey returns the same key on all servers of one chat, and another one for each chat without Redis.
func newModeratorKey(ctx context.Context, b adapters.Backend) (string, error) {
	if b.Secret == nil {
		return rand.Text(), nil
	}
	secret, err := b.Secret(ctx, "moderators")
	if err != nil {
		return "", err
	}
	return base32.StdEncoding.EncodeToString(secret[:15]), nil
}

func (chat *Chat) moderated() {
	moderators := chat.With(ingress.RequireRole(moderator))
	router.RPC(moderators, "message.remove", chat.removeMessage)
	router.RPC(moderators, "member.remove", chat.removeMember)
	router.RPC(moderators, "member.ban", chat.banMember)
}

// removeMessage takes a message out of the history, and off all pages.
func (chat *Chat) removeMessage(c *router.Context, q Removed) (struct{}, error) {
	return struct{}{}, chat.Redact(c, messagesOf(seatOf(c).Room), q.Pos, nil)
}

// removeMember takes a member out of the room. It may come back; see banMember.
func (chat *Chat) removeMember(c *router.Context, q Other) (struct{}, error) {
	var err error
	room := seatOf(c).Room
	for _, topic := range []string{topicOf(room), messagesOf(room)} {
		err = errors.Join(err, chat.Revoke(c, router.Right{User: q.ID, Topics: topic}))
	}
	chat.rooms.vacate() // other servers do it in their next sweep
	return struct{}{}, err
}

// banMember keeps a member out of the chat for banTime.
func (chat *Chat) banMember(c *router.Context, q Other) (struct{}, error) {
	if err := chat.limits.bans.Ban(c, netip.Addr{}, ingress.Identity{User: q.ID}, banTime); err != nil {
		return struct{}{}, err
	}
	_, err := chat.User("", q.ID).Close(c, errors.CloseTooManyRequests, "banned by a moderator")
	return struct{}{}, err
}

// vacate removes connections from seats in rooms that they have been taken out of.
func (rs *Rooms) vacate() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for conn, at := range rs.here {
		if !conn.IsSubscribed(topicOf(at.Room)) {
			rs.stand(conn, false)
		}
	}
}
