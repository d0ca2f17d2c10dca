package main

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/bench/load"
)

// text is a line of chat.
const text = "a line of chat, about as long as what people type"

// publishers is how many goroutines publish, as the handlers of so many messages.
const publishers = 16

// publishing answers /publish.
func publishing(n node) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.FormValue("from"))
		to, _ := strconv.Atoi(r.FormValue("to"))
		messages, err := strconv.Atoi(r.FormValue("messages"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		every, err := time.ParseDuration(r.FormValue("every"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		topics := []string{load.AllTopic}
		if to > from {
			topics = topics[:0]
			for i := from; i < to; i++ {
				topics = append(topics, load.Room(i))
			}
		}
		if err := n.publishAll(r.Context(), topics, messages, every); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// due is when a message of a topic is published: each topic has one in every span, which the topics share evenly.
func due(began time.Time, every time.Duration, number, topic, topics int) time.Time {
	return began.Add(time.Duration(number)*every + every*time.Duration(topic)/time.Duration(topics))
}

// concurrently publishes so many messages on each topic, one in every span.
func concurrently(ctx context.Context, publish func(context.Context, message) error, topics []string, messages int, every time.Duration) error {
	began := time.Now()
	errs := make([]error, publishers)
	var wait sync.WaitGroup
	for p := range publishers {
		wait.Go(func() {
			for number := range messages {
				for i := p; i < len(topics); i += publishers { // the messages of a topic are in order
					time.Sleep(time.Until(due(began, every, number, i, len(topics))))
					if err := publish(ctx, message{N: number, Sent: time.Now().UnixMicro(), Topic: topics[i], Text: text}); err != nil {
						errs[p] = err
						return
					}
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
