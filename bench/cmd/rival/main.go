// Rival serves one of the libraries wskit is measured against.
package main

import (
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/wskit/wskit/bench/rival"
	"github.com/wskit/wskit/bench/server"
)

func main() {
	log.SetFlags(0)
	addr := flag.String("addr", "127.0.0.1:9002", "address to listen on; port 0 lets the kernel choose")
	kind := flag.String("kind", "coder", fmt.Sprintf("which rival: %s", strings.Join(rival.Kinds(), ", ")))
	secure := flag.Bool("tls", false, "serve TLS, with a certificate made at the start")
	compress := flag.Bool("compress", false, "accept permessage-deflate, without context takeover")
	flag.Parse()

	routes, ok := rival.Routes(*kind, *compress)
	if !ok {
		log.Fatalf("rival: no rival named %q; there are %s", *kind, strings.Join(rival.Kinds(), ", "))
	}
	log.Fatal(server.Run(*addr, *secure, routes))
}
