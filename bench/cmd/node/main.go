// Node is one of several server processes on one Redis, whose clients join a room and get the messages of the room and
// those for all. It is wskit, or written by hand with github.com/redis/go-redis/v9 and github.com/coder/websocket.
//
//	node -kind wskit -redis 127.0.0.1:6379
//	node -kind hub   -redis 127.0.0.1:6379
//	node -kind bare
//
// The last one is no server but a loop that writes each message to its members, for comparison.
//
// A client connects to /ws and sends a "join". /publish?from=0&to=10&messages=20&every=1s publishes the messages of the
// rooms 0 to 9, and answers when it has; without from and to it publishes those for all.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/bench/server"
)

// message is what is published.
type message struct {
	N     int    `json:"n"`
	Sent  int64  `json:"sent"` // in microseconds
	Topic string `json:"topic"`
	Text  string `json:"text"`
}

// join is what a client sends first.
type join struct {
	Room string `json:"room" validate:"required"`
}

// node is a server of either kind.
type node interface {
	http.Handler // of /ws
	// publishAll publishes so many messages on each topic, one in every span, which the topics share evenly.
	publishAll(ctx context.Context, topics []string, messages int, every time.Duration) error
}

var kinds = map[string]func(*redis.Client) node{"wskit": newWskit, "hub": newHub, "bare": newBare}

func main() {
	log.SetFlags(0)
	kind := flag.String("kind", "wskit", "wskit, hub or bare")
	addr := flag.String("redis", "127.0.0.1:6379", "address of the Redis")
	flag.Parse()
	make, ok := kinds[*kind]
	if !ok {
		log.Fatalf("node: no kind %q", *kind)
	}
	log.Fatal(serve(make(redis.NewClient(&redis.Options{Addr: *addr, ContextTimeoutEnabled: true}))))
}

func serve(n node) error {
	mux := http.NewServeMux()
	mux.Handle("/ws", n)
	mux.Handle("/publish", publishing(n))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if _, ok := n.(*bare); ok {
		s.ConnContext = withConn
	}
	return server.Serve(s)
}
