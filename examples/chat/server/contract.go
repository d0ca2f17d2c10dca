package server

import (
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/contract"
)

// describe returns the types of the chat's messages, for its page:
//
//	go run ./examples/chat -contract ts > examples/chat/server/static/contract.d.ts
func describe() (*contract.Contract, error) {
	b := memory.New()
	return contract.Of(NewChat(b, b.Limits, "").Router, contract.Options{Title: "Chat"})
}
