// Chat is the example chat on PostgreSQL. In the folder adapters/postgres:
//
//	go run ./chat -postgres postgres://app@localhost/app
//	go run ./chat -postgres postgres://app@localhost/app -addr 127.0.0.1:8081
package main

import (
	"context"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/examples/chat/server"
)

func main() {
	server.Main(server.Shared{
		Flag:  "postgres",
		Usage: "`URL` of a PostgreSQL database, postgres://user@host/database, that several servers share to be one chat",
		Open: func(ctx context.Context, url string) (adapters.Backend, error) {
			return postgres.Open(ctx, url)
		},
	})
}
