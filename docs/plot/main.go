// Plot draws the pictures of docs/limits.md: the same requests under each policy,
// decided by the code of package limit.
//
//	go generate ./docs/plot
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/wskit/wskit/limit"
)

//go:generate go run . -dir ..

// subjects are the pictures: each policy allows ten in four seconds.
var subjects = []subject{
	{"token-bucket", limit.TokenBucket{Capacity: 10, Refill: 10, Per: 4 * time.Second}},
	{"pacer", limit.Pacer{Burst: 1, Refill: 10, Per: 4 * time.Second, MaxWait: 2 * time.Second}},
	{"fixed-window", limit.FixedWindow{Limit: 10, Window: 4 * time.Second}},
	{"sliding-window", limit.SlidingWindow{Limit: 10, Window: 4 * time.Second, Buckets: 4}},
	{"sliding-log", limit.SlidingLog{Limit: 10, Window: 4 * time.Second}},
}

type subject struct {
	name   string
	policy limit.Policy
}

func main() {
	dir := flag.String("dir", ".", "where the pictures go")
	flag.Parse()
	for _, s := range subjects {
		svg, err := draw(s)
		if err == nil {
			err = os.WriteFile(filepath.Join(*dir, s.name+".svg"), svg, 0o644)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
