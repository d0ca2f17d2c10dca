package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/wskit/wskit/router"
)

// allCalls are the calls in the order of the documentation.
var allCalls = []*call{
	define("publish", "Sends an event to the subscribers of a topic.",
		func(p publishParams) Call { return Call{Topics: []string{p.Topic}, Event: p.Event} },
		func(ctx context.Context, h *handler, p publishParams) (none, error) {
			data, err := h.data(p.Event, p.Data)
			if err != nil {
				return none{}, err
			}
			o := p.options()
			o.ID = p.ID
			return none{}, h.r.Publish(ctx, p.Topic, p.Event, data, o)
		}),
	define("send", "Sends an event to connections.",
		func(p sendParams) Call { c := p.call(); c.Event = p.Event; return c },
		to(func(ctx context.Context, h *handler, t router.Target, p sendParams) (none, error) {
			data, err := h.data(p.Event, p.Data)
			if err != nil {
				return none{}, err
			}
			return none{}, t.Send(ctx, p.Event, data, p.options())
		})),
	define("ask", "Asks a declared question on connections, and returns the first answer. The others do not show it any more.",
		func(p askParams) Call { c := p.call(); c.Event = p.Question; return c },
		to(func(ctx context.Context, _ *handler, t router.Target, p askParams) (answered, error) {
			answer, err := t.AskJSON(ctx, p.Question, p.Data)
			if err == nil && answer == nil {
				answer = []byte("null")
			}
			return answered{answer}, err
		})),
	define("subscribe", "Makes connections members of topics.", aboutTopics,
		to(func(ctx context.Context, _ *handler, t router.Target, p topicsParams) (counted, error) {
			n, err := t.Subscribe(ctx, p.Topics...)
			return counted{n}, err
		})),
	define("unsubscribe", "Ends memberships of connections in topics.", aboutTopics,
		to(func(ctx context.Context, _ *handler, t router.Target, p topicsParams) (counted, error) {
			n, err := t.Unsubscribe(ctx, p.Topics...)
			return counted{n}, err
		})),
	define("revoke", "Takes the right of a user to topics away: a topic, or a beginning of names followed by *.",
		func(p revokeParams) Call { return Call{Tenant: p.Tenant, User: p.User, Topics: []string{p.Topics}} },
		func(ctx context.Context, h *handler, p revokeParams) (none, error) {
			return none{}, h.r.Revoke(ctx, router.Right{Tenant: p.Tenant, User: p.User, Topics: p.Topics})
		}),
	define("redact", "Takes back a message of a topic with history.",
		func(p redactParams) Call { return Call{Topics: []string{p.Topic}} },
		func(ctx context.Context, h *handler, p redactParams) (none, error) {
			var replacement any
			if p.Replacement != nil {
				replacement = p.Replacement
			}
			return none{}, h.r.Redact(ctx, p.Topic, p.Position, replacement)
		}),
	define("close", "Closes connections. Without a code: with 1008.",
		closeParams.call,
		to(func(ctx context.Context, _ *handler, t router.Target, p closeParams) (counted, error) {
			code, err := p.code()
			if err != nil {
				return counted{}, err
			}
			n, err := t.Close(ctx, code, p.Reason)
			return counted{n}, err
		})),
	define("count", "Counts open connections.",
		target.call,
		to(func(ctx context.Context, _ *handler, t router.Target, _ target) (counted, error) {
			n, err := t.Count(ctx)
			return counted{n}, err
		})),
	define("list", "Lists open connections, at most 10,000.",
		target.call,
		to(func(ctx context.Context, _ *handler, t router.Target, _ target) (listed, error) {
			all, err := t.List(ctx)
			return listed{append([]router.ConnInfo{}, all...)}, err
		})),
	define("presence", "Lists the members that have joined a topic.",
		func(p topicParams) Call { return Call{Topics: []string{p.Topic}} },
		func(ctx context.Context, h *handler, p topicParams) (present, error) {
			all, err := h.r.Presence(ctx, p.Topic)
			members := make([]member, len(all))
			for i, m := range all {
				members[i] = member{m.ID, m.User, m.Data}
			}
			return present{members}, err
		}),
	define("history", "Reads messages of a topic with history.",
		func(p historyParams) Call { return Call{Topics: []string{p.Topic}} },
		func(ctx context.Context, h *handler, p historyParams) (router.HistoryPage, error) {
			q := router.HistoryQuery{From: p.From, Backwards: p.Backwards, Limit: p.Limit}
			return h.r.ReadHistory(ctx, p.Topic, q)
		}),
	define("ban", "Bans a user or an address.",
		banParams.call,
		func(ctx context.Context, h *handler, p banParams) (none, error) {
			c, err := h.banned(p.subjectParams)
			if err != nil {
				return none{}, err
			}
			return none{}, h.o.Bans.Ban(ctx, c.IP, c.Identity, time.Duration(p.Seconds)*time.Second)
		}),
	define("unban", "Ends a ban.",
		subjectParams.call,
		func(ctx context.Context, h *handler, p subjectParams) (none, error) {
			c, err := h.banned(p)
			if err != nil {
				return none{}, err
			}
			return none{}, h.o.Bans.Unban(ctx, c.IP, c.Identity)
		}),
	define("peek", "Says what is left of a limit, for messages of a type.",
		limitParams.call,
		func(ctx context.Context, h *handler, p limitParams) (left, error) {
			l, key, err := h.limit(p)
			if err != nil {
				return left{}, err
			}
			d, err := l.Peek(ctx, key, 1)
			retry, full := d.RetryAfter.Milliseconds(), d.ResetAfter.Milliseconds()
			return left{d.Limit, d.Remaining, retry, full, d.Allowed}, err
		}),
	define("reset", "Has a limit begin anew.",
		limitParams.call,
		func(ctx context.Context, h *handler, p limitParams) (none, error) {
			l, key, err := h.limit(p)
			if err != nil {
				return none{}, err
			}
			return none{}, l.Reset(ctx, key)
		}),
	define("stats", "Figures of the process that answers.",
		func(none) Call { return Call{} },
		func(_ context.Context, h *handler, _ none) (map[string]any, error) {
			b, err := json.Marshal(h.r.Stats())
			if err != nil {
				return nil, err
			}
			var figures map[string]any
			return figures, json.Unmarshal(b, &figures)
		}),
}

func aboutTopics(p topicsParams) Call {
	c := p.call()
	c.Topics = p.Topics
	return c
}

func (p subjectParams) call() Call { return Call{Tenant: p.Tenant, User: p.User, IP: p.IP} }
