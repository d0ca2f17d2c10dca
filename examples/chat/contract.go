package main

import (
	"context"

	"github.com/wskit/wskit/contract"
)

// describe returns the types of the chat's messages, for its page:
//
//	go run ./examples/chat -contract ts > examples/chat/static/contract.d.ts
func describe() (*contract.Contract, error) {
	backend, err := newBackend(context.Background(), "", "")
	if err != nil {
		return nil, err
	}
	defer backend.Close()
	return contract.Of(NewChat(backend).Router, contract.Options{Title: "Chat"})
}
