package contract

// topicMessages are those of the protocol that say what has become of a topic, and that an application acts on.
// PROTOCOL.md has all others, which clients handle themselves.
var topicMessages = []struct {
	name, doc string
	payload   object
}{
	{"$ws:unsubscribed", "the client gets nothing of the topic any more", object{
		"type": "object", "required": []any{"topic"},
		"properties": object{
			"topic":  object{"type": "string"},
			"reason": object{"type": "string", "description": "revoked: the right was taken away; ended: it was given until now; none: neither"},
		},
	}},
	{"$ws:redacted", "a message of a topic with history was taken back", object{
		"type": "object", "required": []any{"topic", "pos"},
		"properties": object{
			"topic":       object{"type": "string"},
			"pos":         object{"type": "string", "description": "the position of the message, as in its meta.pos"},
			"replacement": object{"description": "what stands in its place, if anything"},
		},
	}},
}
