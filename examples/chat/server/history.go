package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/wskit/wskit/router"
)

// maxHistory is how many messages of a room are kept.
const maxHistory = 50

// The latest messages of the lobbies are kept for a day. Those of other rooms are kept for less,
// because each tab can open some.
const (
	lobbyHistory = 24 * time.Hour
	roomHistory  = time.Hour
)

// messagesOf is the topic of a room's messages: a topic with history.
func messagesOf(room string) string { return "messages:" + room }

func declareHistories(r *router.Router) {
	for _, room := range lobbies {
		r.History(messagesOf(room), router.HistoryOptions{Messages: maxHistory, Age: lobbyHistory})
	}
	r.History(messagesOf("*"), router.HistoryOptions{Messages: maxHistory, Age: roomHistory})
}

// History has the messages of a room behind a position, or the latest ones.
type History struct {
	Messages []Message `json:"messages"`
	// Pos is the position of the last message. The tab gets those behind it as events, each with
	// its position, and sends the last position that it has when it joins again.
	Pos string `json:"pos"`
	// Removed are the positions of messages that a moderator has removed.
	Removed []string `json:"removed,omitzero"`
	// Gap is why messages between the tab's position and these are missing, or empty: epoch,
	// trimmed or rewound, see router.HistoryPage.
	Gap string `json:"gap,omitzero"`
}

func readHistory(ctx context.Context, r *router.Router, room, after string) (h History, err error) {
	latest := router.HistoryQuery{Backwards: true, Limit: maxHistory}
	query := latest
	if after != "" {
		query = router.HistoryQuery{From: after, Limit: maxHistory}
	}
	page, err := r.ReadHistory(ctx, messagesOf(room), query)
	if err == nil && page.Lost != "" {
		h.Gap = page.Lost
		page, err = r.ReadHistory(ctx, messagesOf(room), latest)
	}
	if err != nil {
		return History{}, err
	}
	h.Pos = page.Head // the page ends there: it has room for all messages that are kept
	for _, kept := range page.Messages {
		m := Message{Pos: kept.Pos}
		switch err := json.Unmarshal(kept.Payload, &m); {
		case err != nil: // it is from another version of the chat
		case kept.Type == "$ws:redacted":
			h.Removed = append(h.Removed, m.Pos)
		default:
			h.Messages = append(h.Messages, m)
		}
	}
	return h, nil
}
