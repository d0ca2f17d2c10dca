package client_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/client"
)

// scripted is a network with one server, in memory: a function that handles each connection.
type scripted func(*websocket.Conn)

func (serve scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	here, there := net.Pipe()
	w := &upgrade{httptest.NewRecorder(), there}
	ws, err := websocket.Accept(w, req, nil)
	if err != nil {
		return nil, err
	}
	go serve(ws)
	resp := w.Result()
	resp.Body = here
	return resp, nil
}

type upgrade struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return u.conn, bufio.NewReadWriter(bufio.NewReader(u.conn), bufio.NewWriter(u.conn)), nil
}

// renewals has a server send a notice that the identity expires, and another one before each answer to a renewal. It
// returns when the renewals of a time came.
func renewals(t *testing.T, inMs int, during time.Duration) (at []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		handled := make(chan struct{})
		server := scripted(func(ws *websocket.Conn) {
			defer close(handled)
			send := func(frame string) {
				if err := ws.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
					t.Error(err)
				}
			}
			notice := fmt.Sprintf(`{"type":"$ws:expiring","payload":{"inMs":%d}}`, inMs)
			send(notice)
			for {
				_, b, err := ws.Read(t.Context())
				if err != nil {
					return
				}
				var f struct {
					Type string
					Meta struct{ CorrelationID string }
				}
				if err := json.Unmarshal(b, &f, json.MatchCaseInsensitiveNames(true)); err != nil || f.Type != "$ws:renew" {
					t.Errorf("got %s, %v", b, err)
				}
				at = append(at, time.Since(start))
				send(notice)
				send(fmt.Sprintf(`{"type":"$ws:renewed","meta":{"correlationId":%q},"payload":{}}`, f.Meta.CorrelationID))
			}
		})
		c, err := client.Dial(t.Context(), "ws://server", client.Options{
			Token:      func(context.Context) (string, error) { return "a short one", nil },
			HTTPClient: &http.Client{Transport: server},
		})
		ok(t, err)
		time.Sleep(during)
		ok(t, c.Close(t.Context()))
		<-handled
	})
	return at
}

// A notice that comes before the answer to a renewal is about the identity after it, which is renewed, too.
func TestANoticeDuringARenewal(t *testing.T) {
	t.Parallel()
	const left = time.Minute
	var last time.Duration
	at := renewals(t, int(left.Milliseconds()), time.Hour)
	for _, at := range append(at, time.Hour) {
		if at-last > left {
			t.Errorf("the identity expired: no renewal from %v to %v", last, at)
		}
		last = at
	}
}

// A server that says again and again that the identity expires causes few renewals.
func TestNoticesAgainAndAgain(t *testing.T) {
	t.Parallel()
	if at := renewals(t, 2000, time.Minute); len(at) < 30 || len(at) > 61 {
		t.Errorf("%d renewals in a minute: %v", len(at), at)
	}
}
