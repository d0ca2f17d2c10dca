package router_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// said are the events of the topic that a client has got: "text@position", or "-position replacement@position" for one that takes
// back another.
func (s *revoking) said(c *routertest.Client) string {
	s.Helper()
	synctest.Wait()
	var all []string
	for _, f := range c.Frames() {
		var e struct {
			Text        string `json:"text"`
			Pos         string `json:"pos"`
			Replacement string `json:"replacement"`
		}
		if err := json.Unmarshal(f.Payload, &e); err != nil {
			s.Fatal(err)
		}
		pos := strings.Trim(string(f.Meta.Own["pos"]), `"`)
		switch f.Type {
		case "said":
			all = append(all, e.Text+"@"+pos)
		case "$ws:redacted":
			all = append(all, strings.TrimSpace("-"+e.Pos+" "+e.Replacement)+"@"+pos)
		}
	}
	return strings.Join(all, "\n")
}

func (s *revoking) say(text, id string) {
	s.Helper()
	payload := map[string]string{"text": text}
	if err := s.routers[0].Publish(s.Context(), "log:a", "said", payload, router.PublishOptions{ID: id}); err != nil {
		s.Fatal(err)
	}
}

// positions are those of all messages of the topic.
func (s *revoking) positions() (all []string) {
	s.Helper()
	page, err := s.routers[0].ReadHistory(s.Context(), "log:a", router.HistoryQuery{})
	if err != nil {
		s.Fatal(err)
	}
	for _, m := range page.Messages {
		all = append(all, m.Pos)
	}
	return all
}

// A message that was redacted reaches no client any more that reads the history or resumes, on any server. Clients that have got
// it get $ws:redacted, also later. All other messages come once.
func TestRedact(t *testing.T) {
	forRevoking(t, func(t *revoking) {
		t.say("one", "")
		t.say("secret", "id")
		t.say("three", "")
		at := t.positions()
		here, there := t.dial(0, "ann"), t.dial(1, "bob")
		for _, c := range []*routertest.Client{here, there} { // so that pages are in memory
			routertest.ExpectReply[bool](c.Request("from", "log:a"))
			if got := t.said(c); got != "one@"+at[0]+"\nsecret@"+at[1]+"\nthree@"+at[2] {
				t.Fatalf("before, a client gets\n%s", got)
			}
		}
		for n, replacement := range []any{nil, "gone"} {
			if err := t.routers[n%len(t.routers)].Redact(t.Context(), "log:a", at[1], replacement); err != nil {
				t.Fatal(err)
			}
		}
		at = t.positions()
		notices := "-" + at[1] + "@" + at[3] + "\n-" + at[1] + " gone@" + at[4]
		for _, c := range []*routertest.Client{here, there} {
			if got := t.said(c); got != notices {
				t.Errorf("a member gets\n%s\nwant\n%s", got, notices)
			}
		}
		for i := range 2 {
			late := t.dial(i, "eve")
			routertest.ExpectReply[bool](late.Request("from", "log:a"))
			want := "one@" + at[0] + "\n-" + at[1] + " gone@" + at[1] + "\nthree@" + at[2] + "\n" + notices
			if got := t.said(late); got != want {
				t.Errorf("a client that comes later gets\n%s\nwant\n%s", got, want)
			}
		}
		t.say("secret", "id") // repeated
		if n := len(t.positions()); n != 5 {
			t.Errorf("the history has %d messages", n)
		}
		page, err := t.routers[0].ReadHistory(t.Context(), "log:a", router.HistoryQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if m := page.Messages[1]; m.Type != "$ws:redacted" || string(m.Payload) != `{"topic":"log:a","pos":"`+at[1]+`","replacement":"gone"}` {
			t.Errorf("the history has %s %s", m.Type, m.Payload)
		}
	})
}

// A ticket of before the redaction resumes across it.
func TestRedactAndResume(t *testing.T) {
	forRevoking(t, func(t *revoking) {
		c := t.dial(0, "ann")
		routertest.ExpectReply[bool](c.Request("enter", "log:a"))
		from := routertest.ExpectEvent[ticketed](c, "$ws:subscribed")
		t.say("secret", "")
		t.say("two", "")
		if err := t.routers[0].Redact(t.Context(), "log:a", t.positions()[0], nil); err != nil {
			t.Fatal(err)
		}
		at := t.positions()
		again := t.dial(1, "ann")
		got := routertest.ExpectReply[resumedAs](again.Request("$ws:resume", map[string]any{"topics": []ticketed{from}}))
		if !got.Topics[0].Resumed || got.Topics[0].Replayed != 3 {
			t.Errorf("%+v", got)
		}
		if got, want := t.said(again), "-"+at[0]+"@"+at[0]+"\ntwo@"+at[1]+"\n-"+at[0]+"@"+at[2]; got != want {
			t.Errorf("the client gets\n%s\nwant\n%s", got, want)
		}
	})
}

// plainLog is a Log that is no Replacer.
type plainLog struct {
	pubsub.Log
	counts memory.Broker
}

func (l plainLog) PublishCounted(ctx context.Context, m pubsub.Message) (int, error) {
	return l.counts.PublishCounted(ctx, m)
}

// What cannot be redacted is said.
func TestRedactRefuses(t *testing.T) {
	forRevoking(t, func(t *revoking) {
		for range 1001 { // one more than is kept
			t.say("x", "")
		}
		page, err := t.routers[0].ReadHistory(t.Context(), "log:a", router.HistoryQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		oldest, err := pubsub.ParsePosition(page.Messages[0].Pos)
		if err != nil {
			t.Fatal(err)
		}
		gone, begin, never := oldest, pubsub.Position{Epoch: oldest.Epoch}, oldest
		gone.Offset--
		never.Offset += 5000
		for _, c := range []struct {
			topic, pos  string
			replacement any
			want        errors.Code
		}{
			{"log:a", gone.String(), nil, errors.NotFound}, {"log:a", never.String(), nil, errors.NotFound},
			{"log:b", oldest.String(), nil, errors.NotFound},
			{"log:a", "", nil, errors.InvalidArgument}, {"log:a", begin.String(), nil, errors.InvalidArgument},
			{"log:a", "x", nil, errors.InvalidArgument}, {"", oldest.String(), nil, errors.InvalidArgument},
			{"log:a", oldest.String(), func() {}, errors.InvalidArgument},
			{"log:a", oldest.String(), strings.Repeat("x", 2<<20), errors.InvalidArgument},
			{"room:a", oldest.String(), nil, errors.Internal},
		} {
			if err := t.routers[0].Redact(t.Context(), c.topic, c.pos, c.replacement); errors.CodeOf(err) != c.want {
				t.Errorf("Redact of %s at %s: %v, want %s", c.topic, c.pos, err, c.want)
			}
		}
	})
	s := &revoking{T: t}
	b := memory.NewBroker()
	s.start(plainLog{b, b})
	err := s.routers[0].Redact(context.Background(), "log:a", (pubsub.Position{Epoch: 1, Offset: 1, Tag: 1}).String(), nil)
	if errors.CodeOf(err) != errors.Internal {
		t.Errorf("on a log that is no Replacer: %v", err)
	}
}
