package docs_test

import (
	"context"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// The code of limits.md.

type (
	Question struct {
		Text string `json:"text"`
	}
	Answer struct {
		Text   string `json:"text"`
		Tokens int    `json:"tokens"`
	}
	languageModel struct{ tokens int }
)

func (m languageModel) Ask(context.Context, string, int) (Answer, error) {
	return Answer{"yes", m.tokens}, nil
}

func withTokens(store limit.Store, model languageModel) *router.Router {
	r := router.New()
	perDay := limit.New(store, limit.FixedWindow{Limit: 200_000, Window: 24 * time.Hour}, limit.Options{Name: "tokens"})

	router.RPC(r, "chat.ask", func(c *router.Context, q Question) (Answer, error) {
		tokens, err := ratelimit.Reserve(c, perDay, limit.KeyOf(c.Identity.Tenant, c.Identity.User), 4000)
		if err != nil {
			return Answer{}, err // with the time to wait, as for any limit
		}
		defer tokens.Settle() // before the reply is sent

		answer, err := model.Ask(c, q.Text, 4000)
		tokens.Use(answer.Tokens)
		return answer, err
	})
	return r
}

// Of 200,000 tokens a day, requests that use 2,000 of 4,000 leave room for 99, and those that use all for 50.
func TestLimitsPageReserves(t *testing.T) {
	for used, want := range map[int]int{2000: 99, 4000: 50} {
		store := memory.NewStore(memory.Options{Now: func() time.Time { return time.Unix(1, 0) }})
		c := routertest.New(t, withTokens(store, languageModel{used})).Dial()
		for range want {
			routertest.ExpectReply[Answer](c.Request("chat.ask", Question{"really?"}))
		}
		c.Request("chat.ask", Question{"really?"}).ExpectError(errors.ResourceExhausted)
	}
}
