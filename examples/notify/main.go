// Notify passes on what another service says to a user, on all of the user's devices:
//
//	curl -H 'Authorization: Bearer secret' -d '{"user":"ann","text":"Your order was sent"}' http://127.0.0.1:8080/notify
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"log"
	"net/http"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router"
)

type Notice struct {
	User string `json:"user"`
	Text string `json:"text"`
}

func newHandler(secret string) (http.Handler, *router.Router) {
	r := router.New(router.Options{Authenticate: func(req *http.Request) (ingress.Identity, error) {
		return ingress.Identity{User: ingress.Token(req)}, nil // check a real token here
	}})
	noticed := router.Declare[Notice](r, "notice")
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.HandleFunc("POST /notify", func(w http.ResponseWriter, req *http.Request) {
		if subtle.ConstantTimeCompare([]byte(ingress.Token(req)), []byte(secret)) == 0 {
			http.Error(w, "the secret is missing or wrong", http.StatusUnauthorized)
			return
		}
		var n Notice
		if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 64<<10)).Decode(&n); err != nil || n.User == "" {
			http.Error(w, "the body is to be a notice for a user, in JSON", http.StatusBadRequest)
			return
		}
		if err := noticed.Send(req.Context(), r.User("", n.User), n); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux, r
}

func main() {
	handler, r := newHandler("secret")
	log.Println("ws://127.0.0.1:8080/ws")
	log.Fatal(r.Serve(context.Background(), &http.Server{Addr: "127.0.0.1:8080", Handler: handler}))
}
