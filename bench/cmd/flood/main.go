// Flood prints how many legitimate new clients are refused while attackers flood a limit with
// invented keys, each used once: clients of the same limit, and of another limit in the same
// memory store that is not flooded. Time is simulated. Run it inside
// bench/:
//
//	go run ./cmd/flood
//	go run ./cmd/flood -keys 100000      # with a smaller store
//
// MaxKeys and all rates are divided by -scale, which does not change the shares.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"regexp"
	"strconv"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// scenario is a limit that is flooded for as long as it takes until nothing changes any
// more, or to the end of its day.
type scenario struct {
	name   string
	policy limit.Policy
	lasts  time.Duration
}

var scenarios = []scenario{
	{"logins, 5 in 15 min (bucket)", limit.TokenBucket{Capacity: 5, Refill: 5, Per: 15 * time.Minute}, 30 * time.Minute},
	{"logins, 5 in 15 min (log)", limit.SlidingLog{Limit: 5, Window: 15 * time.Minute}, 45 * time.Minute},
	{"chat, 20 and 5 a second", limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second}, time.Minute},
	{"quota, 100 a day", limit.FixedWindow{Limit: 100, Window: 24 * time.Hour}, 24 * time.Hour},
	{"quota, 1,000 a day", limit.FixedWindow{Limit: 1000, Window: 24 * time.Hour}, 24 * time.Hour},
}

// rates are the made-up keys a second.
var rates = []int{2_000, 22_000, 100_000}

func main() {
	log.SetFlags(0)
	keys := flag.Int("keys", 2_000_000, "MaxKeys of the store; its default is 2,000,000")
	scale := flag.Int("scale", 500, "by which MaxKeys and the rates are divided")
	others := flag.Int("others", 2_000, "new users a second of the other limit, one message each")
	only := flag.String("only", "", "flood only the limits whose name matches this regular expression")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		log.Fatalf("flood: -only: %v", err)
	}
	fmt.Printf("MaxKeys %d. Refused of the first requests of legitimate new clients, at the end:\n\n", *keys)
	fmt.Println("| flooded limit | made-up keys/s | same limit | another limit, chat |")
	fmt.Println("|---|---|---|---|")
	for _, s := range scenarios {
		if !match.MatchString(s.name) {
			continue
		}
		for _, rate := range rates {
			same, other := s.run(*keys / *scale, float64(rate)/float64(*scale), float64(*others)/float64(*scale))
			fmt.Printf("| %s | %d | %.1f %% | %.1f %% |\n", s.name, rate, same, other)
		}
	}
}

// share counts the refused of some requests.
type share struct{ refused, all float64 }

func (s *share) percent() float64 { return 100 * s.refused / max(1, s.all) }

// run floods a limit and returns how many of a hundred new clients are refused in the
// last tenth of the time.
func (s scenario) run(keys int, rate, others float64) (same, other float64) {
	begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMicro()
	now := begin
	store := memory.NewStore(memory.Options{MaxKeys: keys, Now: func() time.Time { return time.UnixMicro(now) }})
	flooded := limit.New(store, s.policy)
	chat := limit.New(store, limit.TokenBucket{Capacity: 20, Refill: 5, Per: time.Second})
	n := 0
	take := func(l *limit.Limiter, of string) bool {
		n++
		d, err := l.Take(context.Background(), limit.KeyOf(of+strconv.Itoa(n)), 1)
		if err != nil {
			log.Fatal("flood: ", err)
		}
		return d.Allowed
	}
	var newcomers, users share
	var due float64 // users of the other limit
	total := int(rate * s.lasts.Seconds())
	for i := range total {
		now = begin + int64(float64(i)/rate*1e6)
		take(flooded, "flood")
		late := i >= total-total/10
		if i%50 == 0 {
			newcomers.add(late, take(flooded, "legitimate"))
		}
		if store.Stats().Overflowed == 0 {
			continue // the flooded limit is the first that needs shared states
		}
		for due += others / rate; due >= 1; due-- {
			users.add(late, take(chat, "user"))
		}
	}
	return newcomers.percent(), users.percent()
}

func (s *share) add(counts, allowed bool) {
	if !counts {
		return
	}
	s.all++
	if !allowed {
		s.refused++
	}
}
