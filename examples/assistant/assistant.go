package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/run"
)

// Ask begins an answer.
type Ask struct {
	Text string `json:"text" validate:"required,max=2000"`
}

// Asked tells the devices of a user of a question, and of the run that answers it.
type Asked struct {
	Run  string `json:"run"`
	Text string `json:"text"`
}

// long is the number of words after which the user is asked whether to go on.
const long = 120

func newRouter(b adapters.Backend, m model) (*router.Router, error) {
	r := router.New(router.Options{Backend: b, Authenticate: identify, OnOpen: func(c *router.Conn) error {
		return c.SubscribeFrom(c.Context(), "talk:"+c.Identity().User, "") // all questions, from the first one on
	}})
	r.History("talk:*", router.HistoryOptions{Messages: 50, Age: 24 * time.Hour})
	asked := router.Declare[Asked](r, "asked")
	runs, err := run.New(
		r, run.Options{AtOnce: 3, Budget: limit.FixedWindow{Limit: 2000, Window: time.Hour}, Slice: 50},
	)
	if err != nil {
		return nil, err
	}
	run.Handle(runs, "ask", func(ctx context.Context, q Ask, w *run.Writer) error {
		if err := asked.Publish(ctx, "talk:"+w.Info().User, Asked{w.Info().ID, q.Text}); err != nil {
			return err
		}
		return answer(ctx, m, []message{{"user", q.Text}}, w)
	})
	return r, nil
}

// answer writes what the model says. What the user says to it is added to the talk, and the model begins anew.
func answer(ctx context.Context, m model, talk []message, w *run.Writer) error {
	words := 0
	for from := 0; from < len(talk); {
		from = len(talk)
		for word, err := range m(ctx, talk) {
			if err == nil {
				err = w.Spend(1)
			}
			if err == nil {
				err = w.Text(word)
			}
			if err != nil {
				return err
			}
			if words++; words == long {
				if more, err := run.Ask[bool](ctx, w, "This is getting long. Shall I go on?"); err != nil || !more {
					return err
				}
			}
			if said, ok, err := w.TryInput(); err != nil {
				return err
			} else if ok {
				var text string
				if err := errors.Join(json.Unmarshal(said, &text), w.Event(text)); err != nil {
					return err
				}
				talk = append(talk, message{"user", text})
				break
			}
		}
	}
	return nil
}
