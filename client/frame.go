package client

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
)

// Types of the protocol. PROTOCOL.md describes the frames.
const (
	typeError        = "ERROR"
	typeRPCError     = "RPC_ERROR"
	typeProgress     = "$ws:rpc-progress"
	typeAbort        = "$ws:abort"
	typeAnswer       = "$ws:answer"
	typeExpiring     = "$ws:expiring"
	typeLimits       = "$ws:limits"
	typeRenew        = "$ws:renew"
	typeSubscribed   = "$ws:subscribed"
	typeUnsubscribed = "$ws:unsubscribed"
	typeReset        = "$ws:reset"
	typeResume       = "$ws:resume"
	typeGap          = "$ws:gap"
)

// frame is a frame of the server.
type frame struct {
	Type string `json:"type"`
	Meta struct {
		CorrelationID string                    `json:"correlationId"`
		Topic         string                    `json:"topic"`
		Pos           string                    `json:"pos"`
		Own           map[string]jsontext.Value `json:",embed"`
	} `json:"meta"`
	Payload jsontext.Value `json:"payload"`
}

// fromServer reports whether the id of the frame is one of the server's, as in questions.
func (f *frame) fromServer() bool { return strings.HasPrefix(f.Meta.CorrelationID, "$ws:") }

// outgoing is a frame of the client.
type outgoing struct {
	Type    string         `json:"type"`
	Meta    outgoingMeta   `json:"meta,omitzero"`
	Payload jsontext.Value `json:"payload,omitzero"`
	Error   *answerError   `json:"error,omitzero"`
}

type outgoingMeta struct {
	CorrelationID  string         `json:"correlationId,omitzero"`
	TimeoutMs      int64          `json:"timeoutMs,omitzero"`
	IdempotencyKey string         `json:"idempotencyKey,omitzero"`
	Own            jsontext.Value `json:",embed"`
}

type answerError struct {
	Code    errors.Code `json:"code"`
	Message string      `json:"message"`
}

// encode encodes a frame that has no part that may fail.
func (o outgoing) encode() []byte {
	b, err := json.Marshal(o, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("client: a frame does not encode: %v", err)) // its parts are JSON already
	}
	return b
}

// payloadOf encodes a payload; nil and struct{}{} are none.
func payloadOf(typ string, v any) (jsontext.Value, error) {
	if v == nil || v == struct{}{} {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("client: the payload of %s does not encode: %w", typ, err)
	}
	return b, nil
}
