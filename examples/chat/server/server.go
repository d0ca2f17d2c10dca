// Package server is the chat: see examples/chat.
//
// Read the files in this order: server.go starts and stops the server, backend.go says where its state is, identity.go
// the identities, limits.go the limits, chat.go the messages and their handlers, rooms.go the rooms, history.go their
// latest messages, and moderation.go what moderators may do. others.go reads the state of the other servers of a chat.
// The page is in static/; contract.go writes the types of its messages.
package server

import (
	"context"
	"crypto/rand"
	"embed"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wskit/wskit/adapters"
	wskitjs "github.com/wskit/wskit/clients/typescript"
	"github.com/wskit/wskit/contract"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/examples/internal/page"
)

//go:embed static
var static embed.FS

// Main runs the chat as the command line says. shared are further ways to be one chat with other servers, beside Redis.
func Main(shared ...Shared) {
	addr := flag.String("addr", "127.0.0.1:8080", "`host:port` to serve on; port 0 lets the system choose")
	var opens []opener // of the flags that are given
	for _, s := range append([]Shared{onRedis}, shared...) {
		flag.Func(s.Flag, s.Usage, func(url string) error { // which is not printed: it may contain a password
			opens = append(opens, func(ctx context.Context) (adapters.Backend, error) { return s.Open(ctx, url) })
			return nil
		})
	}
	cfdoURL := flag.String(
		"cfdo", "",
		"`URL` of the Worker of adapters/cfdo, which then keeps the limits of messages; its secret is taken from LIMITS_SECRET",
	)
	inspected := flag.Bool("inspect", false, "show what the server does at /inspect/, behind a token that is printed")
	moderated := flag.Bool("moderate", false, "print a URL for moderators, who may remove messages and members")
	contract.Flags(flag.CommandLine, describe)
	flag.Parse()
	if flag.NArg() > 0 { // not printed: a URL may contain a password
		fmt.Fprintln(os.Stderr, "chat: there is an argument that belongs to no flag; see -help")
		os.Exit(2)
	}
	var open opener
	switch len(opens) {
	case 0:
	case 1:
		open = opens[0]
	default:
		fmt.Fprintln(os.Stderr, "chat: servers share one backend; give one URL")
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the program at once
	}()
	if err := serve(ctx, *addr, open, *cfdoURL, *inspected, *moderated); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

// serve runs the chat until ctx is done, and then shuts it down.
func serve(ctx context.Context, addr string, open opener, cfdoURL string, inspected, moderated bool) error {
	backend, messages, err := newBackend(ctx, open, cfdoURL)
	if err != nil {
		return err
	}
	key := ""
	if moderated {
		if key, err = newModeratorKey(ctx, backend); err != nil {
			return errors.Join(err, closed(backend))
		}
	}
	chat := NewChat(backend, messages, key)
	if backend.Shared {
		go chat.rooms.Sweep(ctx)
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", chat)
	mux.Handle("/wskit.js", wskitjs.Handler()) // the client, which the page imports
	mux.Handle("/limits.js", wskitjs.Handler())
	mux.Handle("/", page.Handler(static))
	token := ""
	if inspected {
		token = rand.Text()
		mux.Handle("/inspect/", http.StripPrefix("/inspect", chat.inspector(token)))
	}
	server := newServer(addr, mux)
	server.BaseContext = func(l net.Listener) context.Context {
		fmt.Printf("Chat on %s (Ctrl-C ends it)\n", urlOf(l.Addr()))
		if moderated {
			fmt.Printf("Moderators on %s/?moderator=%s\n", urlOf(l.Addr()), key)
		}
		if inspected {
			fmt.Printf("Inspector on %s/inspect/#token=%s\n", urlOf(l.Addr()), token)
		}
		return context.Background()
	}
	context.AfterFunc(ctx, func() { fmt.Println("Closing all connections; the clients will reconnect …") })
	return chat.Serve(ctx, server)
}

// newServer limits the time for each part of an HTTP request. These times do not apply to
// WebSockets, which have router.Options.Liveness.
func newServer(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: handler, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,  // the body, too; less than a shutdown may take, or one client could fail it
		WriteTimeout:      10 * time.Second, // from the header to the end of the answer
		IdleTimeout:       time.Minute,      // until the next request
	}
}

// urlOf is the URL to open in a browser on this machine.
func urlOf(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() { // every address of this machine, but none to type
		return fmt.Sprintf("http://localhost:%d", tcp.Port)
	}
	return "http://" + addr.String()
}
