// Plot draws the pictures of the guide: those of docs/limits.md (the same requests under each policy, decided by the
// code of package limit) and those of the results in bench. It also writes the figures of the README.
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

//go:generate go run . -root ../..

// subjects are the policies that are drawn: each allows ten in four seconds.
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
	root := flag.String("root", ".", "the folder of the repository")
	flag.Parse()
	r := results{filepath.Join(*root, "bench")}
	all, err := pictures(r)
	for name, svg := range all {
		if err == nil {
			err = os.WriteFile(filepath.Join(*root, "docs", name), svg, 0o644)
		}
	}
	if err == nil {
		err = writeCosts(filepath.Join(*root, "README.md"), r)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// pictures draws all, by the name of the file.
func pictures(r results) (map[string][]byte, error) {
	all := make(map[string][]byte)
	for _, s := range subjects {
		svg, err := draw(s)
		if err != nil {
			return nil, err
		}
		all[s.name+".svg"] = svg
	}
	drawn, err := charts(r)
	if err != nil {
		return nil, err
	}
	for _, c := range drawn {
		if all[c.name+".svg"], err = drawBars(c); err != nil {
			return nil, err
		}
	}
	return all, nil
}
