package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"
)

// message is a part of a talk with a model.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A model says words, one after the other, until ctx ends.
type model func(ctx context.Context, talk []message) iter.Seq2[string, error]

// storyteller stands for a model: it repeats what was asked, and tells a story.
func storyteller(pause time.Duration) model {
	return func(ctx context.Context, talk []message) iter.Seq2[string, error] {
		text := fmt.Sprintf("You have asked: “%s” ", talk[0].Content) + story
		if len(talk) > 1 {
			text = fmt.Sprintf("“%s”, you say. %s", talk[len(talk)-1].Content, short)
		}
		return func(yield func(string, error) bool) {
			for _, word := range strings.SplitAfter(text, " ") {
				select {
				case <-ctx.Done():
					yield("", context.Cause(ctx))
					return
				case <-time.After(pause):
				}
				if !yield(word, nil) {
					return
				}
			}
		}
	}
}

const short = "Then in short: a keeper kept a light, and every ship came home."

const story = `There was once a lighthouse, and its keeper was asked that very thing. She did not answer at once, ` +
	`for the lamp had to be lit, and the lamp came first. The sea was loud that night, and a ship far out had lost its ` +
	`way. She counted the seconds between two flashes, as she had done for thirty years, and wrote them down.

Towards midnight the telephone rang. It was the harbour, which wanted to know whether the light could be seen. ` +
	`“It burns,” she said. “Whether it is seen, you must ask the ship.” Then the line broke, as it did in every storm. ` +
	`She went on counting. The light did not need the telephone to burn.

In the morning the ship lay in the harbour. Its captain had seen every flash but one, and had counted on through the gap. ` +
	`He climbed the stairs to thank her. “What would you have done,” he asked, “if I had not come?” ` +
	`“Counted,” she said, “and lit the lamp again in the evening.”

That is all she ever said about it. But the people of the village say that this was the answer, and they still tell it ` +
	`on long evenings.`

// endpoint is a model behind HTTP, which streams chat completions as server-sent events.
func endpoint(url, name, key string) model {
	return func(ctx context.Context, talk []message) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			body, _ := json.Marshal(map[string]any{"model": name, "messages": talk, "stream": true})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				yield("", err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+key)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				yield("", err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				yield("", fmt.Errorf("the endpoint has answered %s", res.Status))
				return
			}
			lines := bufio.NewScanner(res.Body)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				data, ok := strings.CutPrefix(lines.Text(), "data: ")
				if !ok || data == "[DONE]" {
					continue
				}
				var chunk struct {
					Choices []struct{ Delta struct{ Content string } }
				}
				if err := json.Unmarshal([]byte(data), &chunk); err != nil {
					yield("", err)
					return
				}
				for _, c := range chunk.Choices {
					if c.Delta.Content != "" && !yield(c.Delta.Content, nil) {
						return
					}
				}
			}
			if err := lines.Err(); err != nil {
				yield("", err)
			}
		}
	}
}
