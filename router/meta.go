package router

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/envelope"
)

// Meta is an application's own members of the meta of a message, such as a trace id: what is not
// part of the payload. The values are encoded as JSON. A Meta has at most 16 members, and 512 bytes
// of names and values. The names of the protocol, and those that begin with "$", cannot be used:
// correlationId, timeoutMs, timestamp, idempotencyKey, clientId, receivedAt, topic, pos, ts.
type Meta map[string]any

// SendOptions configure one event that is sent to one connection.
type SendOptions struct {
	// Meta is put into the event's meta.
	//
	// Default: none.
	Meta Meta
}

// Meta decodes a member of the message's meta into v, a pointer. It returns false, and does
// not change v, if the client has sent none or null. The error is INVALID_ARGUMENT if the value
// does not fit v, so that a handler can return it. Only an application's own members can be read,
// see [Meta].
func (c *Context) Meta(name string, v any) (bool, error) {
	c.checkReturned()
	return c.own.Decode(name, v)
}

// SetReplyMeta puts a member into the meta of the reply, in place of an earlier one with this name.
// An error in place of the reply has no such members, nor has progress. For an event it does
// nothing. It fails if value does not encode, and for names and sizes that [Meta] does not allow.
func (c *Context) SetReplyMeta(name string, value any) error {
	c.checkReturned()
	if !c.route.request {
		return nil
	}
	encoded, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(Meta)
	if earlier := c.replyMeta.Load(); earlier != nil {
		maps.Copy(all, earlier.members)
	}
	all[name] = jsontext.Value(encoded)
	b, err := all.encode()
	if err != nil {
		return err
	}
	c.replyMeta.Store(&replyMeta{all, b})
	return nil
}

// replyMeta is what SetReplyMeta was called with, and all of it as JSON. It is never changed.
type replyMeta struct {
	members Meta
	encoded []byte
}

// insertMeta puts the members of SetReplyMeta into the reply.
func (c *Context) insertMeta() {
	meta := c.replyMeta.Load()
	if meta == nil {
		return
	}
	rest := bytes.Clone(c.out.Bytes()[c.head-1:])
	c.out.Truncate(c.head - 1)
	c.out.WriteByte(',')
	c.out.Write(meta.encoded)
	c.out.Write(rest)
}

// encode returns the members as JSON, without the braces around them.
func (m Meta) encode() ([]byte, error) {
	var b []byte
	size := 0
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if envelope.IsProtocolMember(name) {
			return nil, errors.Internal.Errorf(`router: the member %q of Meta belongs to the protocol; use another name, which does not begin with "$"`, name)
		}
		quoted, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return nil, errors.Internal.Wrap(err, "router: a name in Meta is not UTF-8")
		}
		value, err := json.Marshal(m[name], json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		if b != nil {
			b = append(b, ',')
		}
		b = append(append(append(b, quoted...), ':'), value...)
		size += len(name) + len(value)
	}
	if len(m) > envelope.MaxMembers || size > envelope.MaxMembersSize {
		return nil, errors.Internal.Errorf("router: Meta has %d members and %d bytes; at most %d members and %d bytes can be sent: put the rest into the payload", len(m), size, envelope.MaxMembers, envelope.MaxMembersSize)
	}
	return b, nil
}
