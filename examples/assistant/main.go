// Assistant answers questions word by word, as a language model does, on all devices of a user. An answer goes on when
// the page reloads or the network is gone, can be stopped and steered from each device, asks before it gets long, and
// is paid from a budget.
//
//	go run ./examples/assistant
//	go run ./examples/assistant -redis redis://127.0.0.1:6379
//	API_KEY=… go run ./examples/assistant -endpoint https://models.example.com/v1/chat/completions -model NAME
//
// assistant.go has the answers, identity.go the users, model.go the model that stands for a real one; the page is in
// static/.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	wskitjs "github.com/wskit/wskit/clients/typescript"
	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/examples/internal/page"
)

//go:embed static
var static embed.FS

func main() {
	addr := flag.String("addr", "127.0.0.1:8086", "`host:port` to serve on; port 0 lets the system choose")
	redisURL := flag.String("redis", "", "`URL` of a Redis, redis://host:port, that several servers share")
	url := flag.String("endpoint", "", "`URL` that streams chat completions; the key is in the environment, as API_KEY")
	name := flag.String("model", "", "the `name` of the model of the endpoint")
	contract.Flags(flag.CommandLine, describe)
	flag.Parse()
	m := storyteller(60 * time.Millisecond)
	if *url != "" {
		m = endpoint(*url, *name, os.Getenv("API_KEY"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *redisURL, m); err != nil {
		fmt.Fprintln(os.Stderr, "assistant:", err)
		os.Exit(1)
	}
}

// serve runs the server until ctx is done, and lets answers finish then.
func serve(ctx context.Context, addr, redisURL string, m model) (err error) {
	backend := memory.New()
	if redisURL != "" {
		if backend, err = redis.Open(ctx, redisURL, redis.Options{Prefix: "assistant"}); err != nil {
			return err
		}
	}
	r, err := newRouter(backend, m)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	for _, file := range []string{"wskit", "keep", "run"} {
		mux.Handle("/"+file+".js", wskitjs.Handler())
	}
	mux.Handle("/", page.Handler(static))
	server := &http.Server{Addr: addr, Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	server.BaseContext = func(l net.Listener) context.Context {
		fmt.Printf("Assistant on http://%s (Ctrl-C ends it)\n", l.Addr())
		return context.Background()
	}
	return r.Serve(ctx, server)
}

// describe returns the types of the messages, for the page:
//
//	go run ./examples/assistant -contract ts > examples/assistant/static/contract.d.ts
func describe() (*contract.Contract, error) {
	r, err := newRouter(memory.New(), storyteller(0))
	if err != nil {
		return nil, err
	}
	return contract.Of(r, contract.Options{Title: "Assistant"})
}
