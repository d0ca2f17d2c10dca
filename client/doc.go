// Package client is a client of wskit servers, for programs that talk to a server, bots and tests.
//
//	c, err := client.Dial(ctx, "wss://chat.example.com/ws")
//	…
//	client.On(c, "chat.message", func(_ context.Context, m Message, _ client.Meta) { fmt.Println(m.Text) })
//	joined, err := client.Request[Joined](ctx, c, "room.join", Join{Room: "lobby"})
//
// A connection that ends is opened again, with backoff and as the server advises, until the client is closed
// or the server refuses it with a code that no other attempt would change. Over all connections:
//
//   - A request is handled once at most, and its outcome is known or [ErrUnknownOutcome]: what was never written is
//     sent later, what was written is not sent again. With MessageOptions.IdempotencyKey it is sent again, and the
//     server handles it once.
//   - Messages are sent in the order of the calls. Those that wait are bounded.
//   - Topics with history are resumed: each event comes once and in order, or Options.OnGap is called.
//
// docs/client.md is a guide.
package client
