package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/router/routertest"
)

// hangGuard only ends a test that hangs.
const hangGuard = time.Minute

// countingPresence counts the members that are read from it.
type countingPresence struct {
	pubsub.Presence
	read atomic.Int64
}

func (p *countingPresence) Members(ctx context.Context, topic string) ([]pubsub.Member, error) {
	all, err := p.Presence.Members(ctx, topic)
	p.read.Add(int64(len(all)))
	return all, err
}

// A crowd is a chat with many tabs from several addresses, over real sockets.
type crowd struct {
	t        *testing.T
	chat     *Chat
	addr     string
	presence *countingPresence
	tabs     []*socketTab
	frames   atomic.Int64 // the frames of all tabs, without those of sizes
	sizes    atomic.Int64 // the frames with sizes of rooms
}

func newCrowd(t *testing.T) *crowd {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: only Linux has all of 127.0.0.0/8, which this test uses for many clients")
	}
	backend := memory.New()
	backend.Shared = true
	presence := &countingPresence{Presence: backend.Presence}
	backend.Presence = presence
	chat := newChat(backend)
	server := httptest.NewServer(chat)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
		defer cancel()
		_ = chat.Shutdown(ctx)
		server.Close()
	})
	return &crowd{t: t, chat: chat, addr: server.Listener.Addr().String(), presence: presence}
}

// A socketTab is a tab of the crowd.
type socketTab struct {
	c       *crowd
	ws      *websocket.Conn
	answers chan string // the types of the answers that it gets
}

// open connects a tab from one of 200 addresses.
func (c *crowd) open(address int) *socketTab {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), hangGuard)
	defer cancel()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+address))}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(ctx, "ws://"+c.addr, &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: transport},
		Subprotocols: []string{"chat", fmt.Sprintf("bearer.tab-%012d", len(c.tabs))},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(1 << 20)
	tb := &socketTab{c: c, ws: ws, answers: make(chan string, 1000)}
	c.tabs = append(c.tabs, tb)
	go tb.read()
	return tb
}

func (tb *socketTab) read() {
	for {
		_, frame, err := tb.ws.Read(tb.c.t.Context())
		if err != nil {
			return
		}
		var f struct {
			Type string
			Meta struct{ CorrelationID string }
		}
		_ = json.Unmarshal(frame, &f)
		switch {
		case f.Meta.CorrelationID != "":
			tb.answers <- f.Type
		case f.Type == "rooms.changed":
			tb.c.sizes.Add(1)
		default:
			tb.c.frames.Add(1)
		}
	}
}

func (tb *socketTab) send(typ string, payload any) {
	tb.c.t.Helper()
	data, _ := json.Marshal(payload)
	frame := fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"1"},"payload":%s}`, typ, data)
	if err := tb.ws.Write(tb.c.t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		tb.c.t.Fatal(err)
	}
}

// ask sends a request and returns the type of its answer.
func (tb *socketTab) ask(typ string, payload any) string {
	tb.c.t.Helper()
	tb.send(typ, payload)
	return poll.Receive(tb.c.t, tb.answers, "the answer of "+typ)
}

func (tb *socketTab) enter(room string) {
	tb.c.t.Helper()
	if answer := tb.ask("room.join", Join{Room: room, Name: "Member"}); answer != "room.joined" {
		tb.c.t.Fatalf("joining %s is answered %s", room, answer)
	}
}

// told waits until the server has sent all events of members.
func (c *crowd) told() {
	c.t.Helper()
	poll.Until(c.t, "the server to have sent all events of members", func() bool {
		c.chat.rooms.mu.Lock()
		defer c.chat.rooms.mu.Unlock()
		for _, r := range c.chat.rooms.rooms {
			if r.telling {
				return false
			}
		}
		return true
	})
}

// settle waits until the server has sent all events of members and all tabs have received them.
func (c *crowd) settle() {
	c.t.Helper()
	c.told()
	ctx, cancel := context.WithTimeout(c.t.Context(), hangGuard)
	defer cancel()
	for _, tb := range c.tabs { // the pong comes after them
		if err := tb.ws.Ping(ctx); err != nil {
			c.t.Fatal(err)
		}
	}
}

// The work of a join does not depend on the number of members of the chat: neither the
// entries that are read, nor the frames that are sent. Rooms have 25 members each. Only the
// sizes of the rooms go to all tabs, and not once for each join.
func TestWorkOfAJoinDoesNotGrowWithTheChat(t *testing.T) {
	const joins = 20
	work := func(members int) (read, sent float64) {
		c := newCrowd(t)
		for i := range members {
			c.open(i / 250).enter(fmt.Sprint("room", i/25))
		}
		c.settle()
		reads, frames := c.presence.read.Load(), c.frames.Load()
		for range joins {
			c.open(100).enter("room0")
			c.told() // the server reads the members once for several events that wait together
		}
		c.settle()
		reads, frames = c.presence.read.Load()-reads, c.frames.Load()-frames
		if tabs := int64(len(c.tabs)); c.sizes.Load() > tabs*tabs/4 { // tabs*tabs/2: to all that are there, at each join
			t.Errorf("%d tabs were sent the sizes %d times", tabs, c.sizes.Load())
		}
		return float64(reads) / joins, float64(frames) / joins
	}
	smallRead, smallSent := work(100)
	largeRead, largeSent := work(1000)
	t.Logf("a join among 100 and 1,000 members: %.0f and %.0f entries read, %.0f and %.0f frames sent", smallRead, largeRead, smallSent, largeSent)
	if largeRead > 1.5*smallRead || largeSent > 1.5*smallSent {
		t.Errorf("a join reads %.0f entries and sends %.0f frames among 100 members, and %.0f and %.0f among 1,000",
			smallRead, smallSent, largeRead, largeSent)
	}
}

// Many tabs that join rooms without a pause, as fast as the limits allow, do not delay the
// messages of others.
func TestManyJoinsDelayNoMessage(t *testing.T) {
	c := newCrowd(t)
	victim := c.open(100)
	victim.enter("lobby")
	const attackers = 200
	for i := range attackers {
		c.open(i % 8).enter(fmt.Sprint("room", i%40))
	}
	stop := make(chan struct{})
	var attack sync.WaitGroup
	for i, tb := range c.tabs[1:] {
		attack.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
					tb.ask("room.join", Join{Room: fmt.Sprint("room", n%40), Name: "Member"})
				}
			}
		})
	}
	for range perTab.Capacity {
		if answer := victim.ask("chat.send", message("Hello")); answer != "chat.sent" {
			t.Errorf("a message is answered %s", answer)
		}
	}
	close(stop)
	attack.Wait()
}

// A presence that stalls.
type stalledPresence struct {
	pubsub.Presence
	stalls atomic.Bool
}

func (p *stalledPresence) Join(ctx context.Context, topic string, m pubsub.Member) error {
	if p.stalls.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return p.Presence.Join(ctx, topic, m)
}

// While joins wait for the backend, messages are sent without delay.
func TestStalledJoinDelaysNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memory.New()
		presence := &stalledPresence{Presence: backend.Presence}
		backend.Presence = presence
		s := routertest.New(t, newChat(backend).Router)
		ann, bob := tab(s, "ann"), tab(s, "bob")
		enter(t, ann, "lobby", "Ann")
		enter(t, bob, "lobby", "Bob")
		presence.stalls.Store(true)
		for i := range 5 {
			tab(s, fmt.Sprint("tab", i)).Request("room.join", Join{Room: "lobby", Name: "Slow"})
		}
		synctest.Wait()
		before := time.Now()
		say(t, ann, "hello")
		if took := time.Since(before); took > 0 {
			t.Errorf("the message took %v", took)
		}
		for m := ""; !strings.Contains(m, "hello"); {
			m = routertest.ExpectEvent[Message](bob, "chat.message").Text
		}
	})
}
