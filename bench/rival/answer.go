package rival

import (
	"encoding/json"
	"errors"
	"strings"
)

// request is the whole inbound frame. With one message type a hand-written server
// decodes envelope and payload in a single pass; a router cannot, so this is the
// kinder reading for the rivals.
type request struct {
	Type string `json:"type"`
	Meta struct {
		CorrelationID string `json:"correlationId"`
		Timestamp     int64  `json:"timestamp"`
	} `json:"meta"`
	Payload echo `json:"payload"`
}

type reply struct {
	Type    string    `json:"type"`
	Meta    replyMeta `json:"meta"`
	Payload echo      `json:"payload"`
}

type replyMeta struct {
	CorrelationID string `json:"correlationId"`
}

type echo struct {
	Room string `json:"room"`
	Text string `json:"text"`
}

var (
	errUnknownType  = errors.New("unknown message type")
	errEmptyPayload = errors.New("room and text are required")
)

// answer is the work every rival does for one frame: decode, check, encode.
func answer(frame []byte) ([]byte, error) {
	var q request
	if err := json.Unmarshal(frame, &q); err != nil {
		return nil, err
	}
	if q.Type != "chat.echo" {
		return nil, errUnknownType
	}
	if q.Payload.Room == "" || q.Payload.Text == "" {
		return nil, errEmptyPayload
	}
	return json.Marshal(reply{
		Type:    "chat.echoed",
		Meta:    replyMeta{CorrelationID: q.Meta.CorrelationID},
		Payload: q.Payload,
	})
}

type broadcast struct {
	Type    string           `json:"type"`
	Payload broadcastPayload `json:"payload"`
}

type broadcastPayload struct {
	Text string `json:"text"`
}

var broadcastText = strings.Repeat("x", 200)

// publication decodes a publish request and encodes the message for all subscribers once.
func publication(frame []byte) ([]byte, error) {
	var q request
	if err := json.Unmarshal(frame, &q); err != nil {
		return nil, err
	}
	if q.Type != "chat.send" {
		return nil, errUnknownType
	}
	return json.Marshal(broadcast{Type: "chat.message", Payload: broadcastPayload{Text: broadcastText}})
}
