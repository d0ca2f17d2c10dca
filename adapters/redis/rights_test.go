package redis_test

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/internal/transcript"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// documentedRights are the commands of the package comment that make a user of Redis:
// for one server, and what a cluster needs besides.
func documentedRights(t *testing.T) (one, cluster []any) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^//\tACL SETUSER limits (.*)$`).FindAllStringSubmatch(string(doc), -1) {
		rights := []any{"ACL", "SETUSER", "limits"}
		for _, r := range strings.Fields(line[1]) {
			rights = append(rights, r)
		}
		if strings.Contains(line[1], "cluster") {
			cluster = rights
		} else {
			one = append(one, rights)
		}
	}
	if len(one) != 6 || cluster == nil {
		t.Fatalf("doc.go has other rights than this test expects: %q, %q", one, cluster)
	}
	return one, cluster
}

// A user of Redis with the documented rights can do all that the package does.
func TestDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	one, cluster := documentedRights(t)
	grant := func(s *redistest.Server, lines ...any) {
		for _, line := range lines {
			s.Do(line.([]any)...)
		}
	}
	t.Run("one server", func(t *testing.T) {
		s := redistest.Start(t)
		grant(s, one...)
		everything(t, s)
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.StartCluster(t, 3)
		for _, n := range c.Nodes {
			grant(n, append(one, cluster)...)
		}
		everything(t, c.Nodes[0])
	})
}

// everything uses each part of the package as the user limits.
func everything(t *testing.T, server *redistest.Server) {
	s := openStore(t, strings.Replace(server.URL(), "redis://", "redis://limits:password@", 1))

	prefetch := redis.NewPrefetch(s, redis.PrefetchOptions{Tokens: 4, Hold: time.Minute})
	for range 10 {
		if d, err := prefetch.Take(t.Context(), []byte("wskit:r:ann"), hourly(100), 1); err != nil || !d.Allowed {
			t.Errorf("prefetch: %+v, %v", d, err)
		}
	}
	if err := prefetch.Close(); err != nil {
		t.Error(err)
	}
	pair := limit.All(hourly(2), limit.SlidingLog{Limit: 3, Window: time.Hour})
	requests := []limit.Ask{
		{Key: []byte("wskit:{r}:ann"), Policy: pair, Cost: 1}, {Key: []byte("wskit:{r}:bob"), Policy: pair, Cost: 1},
	}
	if err := s.TakeMany(t.Context(), requests); err != nil {
		t.Error(err)
	}
	if err := s.Reset(t.Context(), []byte("wskit:{r}:ann"), pair); err != nil {
		t.Error(err)
	}

	slot := limit.Lease{Key: "wskit:r:ann", ID: "1"}
	acquire(t, s, slot, 1, time.Hour)
	if err := s.Release(t.Context(), []limit.Lease{slot}); err != nil {
		t.Error(err)
	}

	b := redis.NewBroker(s.Client(), redis.BrokerOptions{Timeout: patience})
	defer b.Close()
	in := subscribe(t, b, "room")
	publish(t, b, "room", "hello")
	eventually(t, "the message arrives", func() bool { return in.count("hello") == 1 })
	h := pubsub.History{Messages: 1, Bytes: 1000, Age: time.Hour}
	logged := subscribe(t, b, "logged")
	for i := range 3 {
		if _, err := b.Append(t.Context(), pubsub.Message{Topic: "logged"}, h, fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the messages arrive", func() bool { return logged.len() == 3 })
	if page, err := b.Read(t.Context(), "logged", h, pubsub.ReadOptions{Messages: 1}); err != nil || len(page.Messages) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	if heads, err := b.Heads(t.Context(), []string{"logged"}); err != nil || heads[0].Offset != 3 {
		t.Errorf("%+v, %v", heads, err)
	}

	p := redis.NewPresence(s.Client(), redis.PresenceOptions{Timeout: patience})
	defer p.Close()
	for _, id := range []string{"1", "2"} {
		if err := p.Join(t.Context(), "room", pubsub.Member{ID: id, User: "ann"}); err != nil {
			t.Error(err)
		}
	}
	watched := watchTopic(t, p, "room")
	watched.become(t, "1", "2")
	p.Leave("room", "1")
	watched.become(t, "2")
	eventually(t, "one member is left", func() bool {
		all, err := p.Members(t.Context(), "room")
		return err == nil && len(all) == 1
	})
	if n := p.Stats().Failed; n != 0 {
		t.Errorf("%d writes of the presence have failed", n)
	}

	i := redis.NewIdempotency(s.Client(), redis.IdempotencyOptions{Timeout: patience})
	c := claimOf("ann", "1")
	if _, _, err := i.Begin(t.Context(), c, time.Hour); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"Renew":   i.Renew(t.Context(), c, time.Hour),
		"Release": i.Release(t.Context(), c),
		"Finish":  i.Finish(t.Context(), c, []byte("answer"), time.Hour),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What Redis refuses to a user without rights is in the error, at once, and in the log, and it works when the rights have been
// granted.
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	for name, rights := range map[string]string{
		"no channel": "+@all ~* resetchannels", "another channel": "+@all ~* resetchannels &other:*", "no command": "+@all ~* allchannels -subscribe",
		"a part of the channels": "+@all ~* resetchannels &wskit:{*}:probe* &wskit:probe*",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			set := []any{"ACL", "SETUSER", "app", "on", ">pw"}
			for _, r := range strings.Fields(rights) {
				set = append(set, r)
			}
			s.Do(set...)
			log := &transcript.Transcript{}
			client := goredis.NewClient(&goredis.Options{Addr: s.Addr, Username: "app", Password: "pw", ContextTimeoutEnabled: true})
			defer client.Close()
			b := redis.NewBroker(client, redis.BrokerOptions{Timeout: patience, Logger: slog.New(slog.NewTextHandler(log, nil))})
			defer b.Close()
			_, err := b.Subscribe(t.Context(), "room", func(pubsub.Message) {})
			if err == nil || !strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "package comment") {
				t.Errorf("subscribing: %v", err)
			}
			if name != "a part of the channels" {
				poll.Until(t, "the log to have it", func() bool { return strings.Contains(log.String(), "NOPERM") })
			}
			s.Do("ACL", "SETUSER", "app", "allchannels", "+@all")
			poll.Until(t, "a subscription", func() bool {
				sub, err := b.Subscribe(t.Context(), "room", func(pubsub.Message) {})
				if err == nil {
					_ = sub.Close()
				}
				return err == nil
			})
		})
	}
}
