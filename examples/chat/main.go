// Chat is a chat in the browser, and an example to start from: a typed router, rate limits before decoding, topics with and
// without history, moderators, and a clean shutdown. It is in the folder server.
//
//	go run ./examples/chat
//	go run ./examples/chat -addr 127.0.0.1:8081 -redis redis://127.0.0.1:6379
//	go run ./examples/chat -moderate
//
// The same chat on PostgreSQL is the program adapters/postgres/chat, so that this module does without the driver:
//
//	go run -C adapters/postgres ./chat -postgres postgres://app@localhost/app
package main

import "github.com/wskit/wskit/examples/chat/server"

func main() { server.Main() }
