package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// talkers are open tabs of the chat, ten to a room.
type talkers struct{ tabs []*talker }

type talker struct {
	conn *websocket.Conn
	n    int
}

// The chat allows a tab one message in three seconds, and an address thirty a second.
const (
	tabsPerRoom    = 10
	tabsPerAddress = 20
	between        = 3200 * time.Millisecond
)

// openTabs opens tabs, from several addresses of this machine.
func openTabs(ctx context.Context, addr string, n int) (*talkers, error) {
	t := &talkers{}
	for i := range n {
		c, err := dialFrom(ctx, addr, net.IPv4(127, 0, 1, byte(1+i/tabsPerAddress)), fmt.Sprintf("talker-%010d", i))
		if err != nil {
			t.close()
			return nil, fmt.Errorf("tab %d: %w", i, err)
		}
		tab := &talker{conn: c}
		t.tabs = append(t.tabs, tab)
		if err := tab.request(ctx, "room.join", map[string]string{"room": fmt.Sprintf("room%d", i/tabsPerRoom), "name": fmt.Sprintf("Tab %d", i)}); err != nil {
			t.close()
			return nil, fmt.Errorf("tab %d: %w", i, err)
		}
	}
	return t, nil
}

func dialFrom(ctx context.Context, addr string, from net.IP, token string) (*websocket.Conn, error) {
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext}
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/ws", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{"wskit", "bearer." + token},
	})
	if err == nil {
		c.SetReadLimit(1 << 20)
	}
	return c, err
}

func (t *talkers) close() {
	for _, tab := range t.tabs {
		_ = tab.conn.CloseNow()
	}
}

// talk has every tab send as often as it may, and returns how long each message took
// to be accepted, which is after it has been shown to the room.
func (t *talkers) talk(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	end := time.Now().Add(d)
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	for _, tab := range t.tabs {
		wg.Go(func() {
			time.Sleep(rand.N(between))
			for time.Now().Before(end) {
				took, err := tab.say(ctx)
				mu.Lock()
				if err != nil {
					failed = err
				}
				all = append(all, took)
				mu.Unlock()
				if err != nil {
					return
				}
				time.Sleep(between)
			}
		})
	}
	wg.Wait()
	return all, failed
}

func (t *talker) say(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := t.request(ctx, "chat.send", map[string]string{"id": fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), "text": "a line of chat, as people type them"})
	return time.Since(start), err
}

// request sends a request and reads until it is answered.
func (t *talker) request(ctx context.Context, typ string, payload any) error {
	t.n++
	id := fmt.Sprint(t.n)
	frame, err := json.Marshal(map[string]any{"type": typ, "meta": map[string]string{"correlationId": id}, "payload": payload})
	if err != nil {
		return err
	}
	if err := t.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		return err
	}
	for {
		_, in, err := t.conn.Read(ctx)
		if err != nil {
			return err
		}
		var m struct {
			Type string
			Meta struct{ CorrelationID string }
		}
		if err := json.Unmarshal(in, &m); err != nil {
			return err
		}
		switch {
		case m.Meta.CorrelationID != id:
		case m.Type == "RPC_ERROR":
			return fmt.Errorf("%s is answered %s", typ, in)
		default:
			return nil
		}
	}
}
