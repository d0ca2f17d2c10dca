package rival

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/bench/server"
)

// visits is what is known of the clients of /visit: the open connections, their number by user and by address, and the
// rate of each address.
type visits struct {
	mu     sync.Mutex
	open   map[*visit]struct{}
	byUser map[string]int
	byIP   map[string]*address
}

type visit struct{ user, ip string }

type address struct {
	open   int
	tokens float64
	at     time.Time
}

// mostVisits and visitRate are the bounds, which nothing reaches.
const mostVisits, visitRate = 1e6, 1e9

// visited serves a client that passes the checks. leave has to be called when its connection has ended.
func visited(serve func(w http.ResponseWriter, r *http.Request, leave func())) http.Handler {
	v := &visits{open: make(map[*visit]struct{}), byUser: make(map[string]int), byIP: make(map[string]*address)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, _ := net.SplitHostPort(r.RemoteAddr)
		if !v.take(ip) {
			http.Error(w, "too many connections", http.StatusTooManyRequests)
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(token), []byte(server.Token)) == 0 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		leave, ok := v.enter(&visit{user: "ann", ip: ip})
		if !ok {
			http.Error(w, "too many connections", http.StatusTooManyRequests)
			return
		}
		serve(w, r, leave)
	})
}

// take takes a token from the bucket of an address.
func (v *visits) take(ip string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	a, now := v.byIP[ip], time.Now()
	if a == nil {
		a = &address{tokens: visitRate}
		v.byIP[ip] = a
	} else {
		a.tokens = min(visitRate, a.tokens+now.Sub(a.at).Seconds()*visitRate)
	}
	a.at = now
	if a.tokens < 1 {
		return false
	}
	a.tokens--
	return true
}

func (v *visits) enter(c *visit) (leave func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.byIP[c.ip]
	if len(v.open) >= mostVisits || v.byUser[c.user] >= mostVisits || a.open >= mostVisits {
		return nil, false
	}
	v.open[c] = struct{}{}
	v.byUser[c.user]++
	a.open++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.open, c)
		v.byUser[c.user]--
		a.open--
	}, true
}
