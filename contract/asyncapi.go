package contract

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wskit/wskit/router"
)

type object = map[string]any

const channel = "#/channels/socket"

// renderAsyncAPI describes one channel with all messages, and an operation for each route. The
// server is the application: it receives what clients send.
func (c *Contract) renderAsyncAPI() ([]byte, error) {
	names := c.schemaNames()
	keys := newKeys()
	schemas := make(object)
	for name, s := range c.definitions("#/components/schemas/", names) {
		schemas[keys.of(name)] = s
	}
	a := &asyncapi{keys: keys, messages: make(object), operations: make(object)}
	a.messages["ERROR"] = a.errorMessage("ERROR", "a message without a correlation id was refused or has failed")
	a.messages["RPC_ERROR"] = a.errorMessage("RPC_ERROR", "the message with this correlation id was refused or has failed")
	a.operations["send.ERROR"] = object{"action": "send", "channel": ref(channel), "messages": refs("ERROR")}
	a.operations["send.RPC_ERROR"] = object{"action": "send", "channel": ref(channel), "messages": refs("RPC_ERROR")}
	for _, m := range topicMessages {
		key := a.keys.of(m.name)
		a.messages[key] = object{"name": m.name, "summary": m.doc, "payload": object{
			"type": "object", "required": []any{"type", "payload"},
			"properties": object{"type": object{"const": m.name}, "payload": m.payload},
		}}
		a.operations["send."+key] = object{"action": "send", "channel": ref(channel), "messages": refs(key)}
	}
	for i := range c.messages {
		a.operation(&c.messages[i], c.opts.Limits)
	}
	schemas["Error"] = errorSchema
	socket := object{
		"title":       c.opts.Title,
		"description": "A WebSocket. Each message is a JSON object, see PROTOCOL.md of wskit.",
		"messages":    a.messages,
		"bindings":    object{"ws": object{"method": "GET", "bindingVersion": "0.1.0"}},
	}
	components := object{"schemas": schemas}
	document := object{
		"asyncapi":           "3.0.0",
		"info":               object{"title": c.opts.Title, "version": c.opts.Version},
		"defaultContentType": "application/json",
		"channels":           object{"socket": socket},
		"operations":         a.operations,
		"components":         components,
	}
	if c.opts.Authenticated {
		components["securitySchemes"] = object{
			"header":    object{"type": "http", "scheme": "bearer", "description": "Authorization: Bearer TOKEN, or the subprotocol bearer.TOKEN where headers cannot be set, as in browsers"},
			"parameter": object{"type": "httpApiKey", "in": "query", "name": "access_token"},
		}
	}
	if c.opts.URL != "" {
		u, err := url.Parse(c.opts.URL)
		if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
			return nil, fmt.Errorf("contract: Options.URL is %q; it must be a URL like wss://chat.example.com/ws", c.opts.URL)
		}
		socket["address"] = max(u.Path, "/")
		server := object{"host": u.Host, "protocol": u.Scheme}
		if c.opts.Authenticated {
			server["security"] = []any{ref("#/components/securitySchemes/header"), ref("#/components/securitySchemes/parameter")}
		}
		document["servers"] = object{"default": server}
		socket["servers"] = []any{ref("#/servers/default")}
	} else {
		socket["address"] = nil // not known
	}
	return encode(document)
}

type asyncapi struct {
	keys                 *keys
	messages, operations object
}

// operation adds what is registered with its messages.
func (a *asyncapi) operation(m *message, limits func(string) any) {
	id := m.Kind == router.KindRequest || m.Kind == router.KindQuestion
	part := mainPart[m.Kind]
	main := a.message(part, m.Type, m.Type, m.Doc, m.payload, id)
	op := object{"channel": ref(channel), "messages": refs(main), "action": "receive"}
	if m.Kind == router.KindDeclared || m.Kind == router.KindQuestion {
		op["action"] = "send"
	}
	if m.Doc != "" {
		op["summary"] = m.Doc
	}
	if m.Group != "" {
		op["tags"] = []any{object{"name": m.Group}}
	}
	switch m.Kind {
	case router.KindRequest:
		replies := []string{a.message("reply", m.Type, m.ReplyType, "", m.reply, true)}
		if m.progress != nil {
			replies = append(replies, a.message("progress", m.Type, "$ws:rpc-progress", "before the reply, any number of times", *m.progress, true))
		}
		op["reply"] = object{"channel": ref(channel), "messages": refs(append(replies, "RPC_ERROR")...)}
	case router.KindQuestion:
		op["reply"] = object{"channel": ref(channel), "messages": refs(a.message("answer", m.Type, "$ws:answer", "", m.reply, true))}
	}
	op["x-limits"] = limitsOf(m, limits)
	if len(op["x-limits"].(object)) == 0 {
		delete(op, "x-limits")
	}
	a.operations[a.keys.of(string(op["action"].(string)+"."+m.Type))] = op
}

// limitsOf lists the limits of a route. The rates come from the application.
func limitsOf(m *message, rates func(string) any) object {
	x := make(object)
	if m.Timeout > 0 {
		x["timeoutMs"] = m.Timeout.Milliseconds()
	}
	if m.Kind == router.KindDeclared || m.Kind == router.KindQuestion {
		return x
	}
	if m.MaxPayload > 0 {
		x["maxPayload"] = m.MaxPayload
	}
	for name, set := range map[string]bool{
		"concurrent": m.Concurrent, "exempt": m.Exempt, "silent": m.Silent, "strict": m.Strict,
	} {
		if set {
			x[name] = true
		}
	}
	if rates != nil {
		if r := rates(m.Type); r != nil {
			x["rates"] = r
		}
	}
	return x
}

// message adds a message to the channel and returns its key. part and typ name its payload, name
// is its type on the wire.
func (a *asyncapi) message(part, typ, name, doc string, f form, id bool) string {
	properties := object{"type": object{"const": name}}
	required := []any{"type"}
	meta := object{"type": "object"}
	if id {
		meta["properties"] = object{"correlationId": object{"type": "string", "minLength": 1, "maxLength": 128}}
		meta["required"] = []any{"correlationId"}
		required = append(required, "meta")
	}
	properties["meta"] = meta
	if sent := part != "request" && part != "send" && part != "answer"; !f.empty || !sent {
		properties["payload"] = ref("#/components/schemas/" + a.keys.of(payloadKey(part, typ)))
		if !f.omissible {
			required = append(required, "payload")
		}
	}
	if part == "answer" {
		// There may be an error in place of the payload.
		properties["error"] = object{"type": "object", "properties": object{"code": object{"type": "string"}, "message": object{"type": "string"}}, "required": []any{"code"}}
		required = slices.DeleteFunc(required, func(s any) bool { return s == "payload" })
	}
	msg := object{
		"name":    name,
		"payload": object{"type": "object", "properties": properties, "required": required},
	}
	if doc != "" {
		msg["summary"] = doc
	}
	if id {
		msg["correlationId"] = object{"location": "$message.payload#/meta/correlationId"}
	}
	key := a.keys.of(payloadKey(part, typ))
	a.messages[key] = msg
	return key
}

// errorSchema is the payload of ERROR and RPC_ERROR.
var errorSchema = object{
	"type": "object",
	"properties": object{
		"code":         object{"type": "string", "description": "one of those of PROTOCOL.md, or the application's own"},
		"message":      object{"type": "string"},
		"retryable":    object{"type": "boolean"},
		"retryAfterMs": object{"type": []any{"integer", "null"}, "minimum": 0},
		"details":      object{},
		"type":         object{"type": "string", "description": "the type of the message that failed, in an ERROR"},
	},
	"required": []any{"code", "message", "retryable"},
}

func (a *asyncapi) errorMessage(name, doc string) object {
	properties, required := object{"type": object{"const": name}, "payload": ref("#/components/schemas/Error")}, []any{"type", "payload"}
	msg := object{"name": name, "summary": doc}
	if name == "RPC_ERROR" {
		properties["meta"] = object{"type": "object", "properties": object{"correlationId": object{"type": "string"}}, "required": []any{"correlationId"}}
		required = append(required, "meta")
		msg["correlationId"] = object{"location": "$message.payload#/meta/correlationId"}
	}
	msg["payload"] = object{"type": "object", "properties": properties, "required": required}
	return msg
}

func ref(to string) object { return object{"$ref": to} }

// refs refer to messages of the channel.
func refs(keys ...string) (all []any) {
	for _, k := range keys {
		all = append(all, ref(channel+"/messages/"+k))
	}
	return all
}

// keys makes names of letters, digits, dots, hyphens and underscores, which is all that AsyncAPI
// allows.
type keys struct {
	byName map[string]string
	taken  map[string]bool
}

func newKeys() *keys {
	return &keys{byName: make(map[string]string), taken: map[string]bool{"Error": true}}
}

func (k *keys) of(name string) string {
	if key, ok := k.byName[name]; ok {
		return key
	}
	key := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '.'
	}, name)
	for k.taken[key] {
		key += "_"
	}
	k.byName[name], k.taken[key] = key, true
	return key
}
