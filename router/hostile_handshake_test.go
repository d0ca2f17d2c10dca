package router_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wskit/wskit/router"
)

func TestHandshakes(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{Origins: []string{"friend.example", "*.wild.example", "https://secure.example"}}, nil)
	good := s.handshake()
	without := func(header string) string {
		lines := strings.SplitAfter(good, "\r\n")
		return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, header+":") }), "")
	}
	with := func(lines ...string) string { return s.handshake(lines...) }
	instead := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the handshake has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for _, c := range []struct {
		name, send string
		status     int
	}{
		{"as it should be", good, 101},
		{"upgrade in capitals", instead("Upgrade: websocket", "Upgrade: WEBSOCKET"), 101},
		{"connection with more tokens", instead("Connection: Upgrade", "Connection: keep-alive, uPGRADE"), 101},
		{"an unknown extension", with("Sec-WebSocket-Extensions: x-unheard-of; a=b, permessage-deflate"), 101},
		{"the same origin", with("Origin: http://" + s.addr), 101},
		{"a listed origin", with("Origin: http://friend.example"), 101},
		{"a listed origin in capitals", with("Origin: HTTP://FRIEND.example"), 101},
		{"an origin of a listed pattern", with("Origin: https://a.wild.example"), 101},
		{"a listed origin with its scheme", with("Origin: https://secure.example"), 101},

		{"POST", instead("GET", "POST"), 426},
		{"HEAD", instead("GET", "HEAD"), 426},
		{"OPTIONS", instead("GET", "OPTIONS"), 426},
		{"HTTP/1.0", instead("HTTP/1.1", "HTTP/1.0"), 426},
		{"no upgrade", without("Upgrade"), 426},
		{"upgrade to something else", instead("Upgrade: websocket", "Upgrade: h2c"), 426},
		{"no connection header", without("Connection"), 426},
		{"connection: close", instead("Connection: Upgrade", "Connection: close"), 426},
		{"plain GET", "GET /ws HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n", 426},
		{"no version", without("Sec-WebSocket-Version"), 400},
		{"version 8", instead("Version: 13", "Version: 8"), 400},
		{"version 14", instead("Version: 13", "Version: 14"), 400},
		{"no key", without("Sec-WebSocket-Key"), 400},
		{"short key", instead("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="), 400},
		{"key that is not base64", instead("dGhlIHNhbXBsZSBub25jZQ==", "!!!"), 400},
		{"two keys", with("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 400},
		{"no host", without("Host"), 400},
		{"no HTTP", "hello\r\n\r\n", 400},
		{"binary garbage", "\x16\x03\x01\x02\x00\r\n\r\n", 400},
		{"a frame", string(echo("1", "a")) + "\r\n\r\n", 400},
		{"HTTP/9.9", instead("HTTP/1.1", "HTTP/9.9"), 505},

		{"a foreign origin", with("Origin: http://evil.example"), 403},
		{"a foreign origin with our name in it", with("Origin: http://" + s.addr + ".evil.example"), 403},
		{"our name as a user", with("Origin: http://" + s.addr + "@evil.example"), 403},
		{"another port", with("Origin: http://127.0.0.1:1"), 403},
		{"origin null", with("Origin: null"), 403},
		{"empty origin", with("Origin: "), 403},
		{"an origin that is no URL", with("Origin: %zz"), 403},
		{"an origin of bytes", with("Origin: http://\xff\xfe"), 403},
		{"two origins", with("Origin: http://"+s.addr, "Origin: http://evil.example"), 403},
		{"the pattern's own parent", with("Origin: https://wild.example"), 403},
		{"a listed origin with another scheme", with("Origin: http://secure.example"), 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.connect()
			p.t = t
			p.write([]byte(c.send))
			res := p.response()
			if res.StatusCode != c.status {
				t.Fatalf("answered %s, want %d", res.Status, c.status)
			}
			if c.status == http.StatusSwitchingProtocols {
				if res.Header.Get("X-Client-Id") == "" || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" ||
					res.Header.Get("Sec-WebSocket-Extensions") != "" {
					t.Errorf("the answer's header is %v", res.Header)
				}
				p.write(echo("1", "a"))
				p.expect("reply 1 a")
				p.bye()
				return
			}
			body, _ := io.ReadAll(res.Body)
			if _, err := p.br.ReadByte(); err != io.EOF {
				t.Errorf("after the refusal the connection is not closed: %v", err)
			}
			if c.status == http.StatusForbidden {
				var problem struct {
					Status       int
					Detail, Code string
				}
				if err := json.Unmarshal(body, &problem); err != nil || problem.Code != "PERMISSION_DENIED" || problem.Status != 403 {
					t.Errorf("the body is %s (%v), want problem details", body, err)
				}
				if !strings.Contains(problem.Detail, "router.Options.Origins") {
					t.Errorf("the detail %q does not say what to configure", problem.Detail)
				}
				if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" {
					t.Errorf("the content type is %q", ct)
				}
			}
		})
	}
	s.hangUpAll()
	s.recovered()
}

// A token offered as a subprotocol is sent back only if nothing else is offered: the answers of
// handshakes end up in logs, but browsers fail a connection for which none of their offers is selected.
func TestTokenSubprotocolIsEchoedOnlyAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefix     string
		configured []string
		offered    []string
		want       string
	}{
		{"", nil, []string{"Sec-WebSocket-Protocol: bearer.secret"}, "bearer.secret"},
		{"", nil, []string{"Sec-WebSocket-Protocol: Bearer.secret, bearer.secret2"}, "Bearer.secret"},
		{"auth-", nil, []string{"Sec-WebSocket-Protocol: auth-secret"}, "auth-secret"},
		{"auth-", nil, []string{"Sec-WebSocket-Protocol: AUTH-secret, chat"}, "chat"},
		{"auth-", []string{"chat"}, []string{"Sec-WebSocket-Protocol: other, auth-secret, chat"}, "chat"},
		{"auth-", nil, []string{"Sec-WebSocket-Protocol: bearer.secret, chat"}, "chat"}, // of a client that does not know
		{"auth-", nil, []string{"Sec-WebSocket-Protocol: bearer.secret"}, "bearer.secret"},
		{"", nil, []string{"Sec-WebSocket-Protocol: auth-chat"}, "auth-chat"},
		{"", nil, []string{"Sec-WebSocket-Protocol: bearer.secret, chat"}, "chat"},
		{"", nil, []string{"Sec-WebSocket-Protocol: chat, bearer.secret"}, "chat"},
		{"", nil, []string{"Sec-WebSocket-Protocol: bearer.secret", "Sec-WebSocket-Protocol: chat, other"}, "chat"},
		{"", nil, []string{"Sec-WebSocket-Protocol: ,, ,bearer.secret,"}, "bearer.secret"},
		{"", []string{"v2", "v1"}, []string{"Sec-WebSocket-Protocol: bearer.secret, v1, v2"}, "v2"},
		{"", []string{"v2"}, []string{"Sec-WebSocket-Protocol: bearer.secret, v1"}, ""},
		{"", []string{"bearer.secret"}, []string{"Sec-WebSocket-Protocol: bearer.secret, v1"}, ""},
		{"", []string{"v2"}, []string{"Sec-WebSocket-Protocol: bearer.secret"}, "bearer.secret"},
	} {
		s := serveSocket(t, router.Options{Handshake: router.Handshake{Subprotocols: c.configured, TokenSubprotocol: c.prefix}}, nil)
		p := s.connect()
		p.write([]byte(s.handshake(c.offered...)))
		res := p.response()
		if got := res.Header.Get("Sec-WebSocket-Protocol"); res.StatusCode != 101 || got != c.want {
			t.Errorf("configured %q, offered %q: %s with the subprotocol %q, want 101 with %q", c.configured, c.offered, res.Status, got, c.want)
		}
		for name, values := range res.Header {
			if strings.Contains(strings.Join(values, ","), "secret") && !strings.Contains(c.want, "secret") {
				t.Errorf("the token comes back in %s", name)
			}
		}
		p.hangUp()
		s.settled()
	}
}

// A client that does not wait for the 101 loses nothing, however much of its
// data came along with the handshake.
func testEarlyData(t *testing.T, serve transport) {
	// When a handler happens to take its time, all that follows it is in flight.
	s := serve(t, router.Options{Limits: router.Limits{MaxInFlight: 1000}}, nil)
	large, text := echoOf(20_000)
	for _, c := range []struct {
		name string
		send []byte
		want []string
	}{
		{"one message", echo("1", "a"), []string{"reply 1 a"}},
		{"part of a message", echo("1", "a")[:9], nil},
		{"hundreds of messages", []byte(strings.Repeat(string(echo("1", "a")), 300)), slices.Repeat([]string{"reply 1 a"}, 300)},
		{"a large message", textFrame(large), []string{"reply 1 " + text}},
		{"fragments", join(frame(opText, whole[:9]), frame(fin|opCont, whole[9:])), []string{"reply 1 whole"}},
		{"a violation", frame(fin|rsv1|opText, ""), []string{"close 1002", "end"}},
		{"its end", closing(1000, ""), []string{"close 1000", "end"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cut := range []int{0, 1, len(c.send) / 2, len(c.send)} {
				p := s.connect()
				p.t = t
				p.write(append([]byte(s.handshake()), c.send[:cut]...), c.send[cut:])
				if res := p.response(); res.StatusCode != 101 {
					t.Fatalf("answered %s", res.Status)
				}
				p.expect(c.want...)
				p.hangUp()
			}
		})
	}
	s.recovered()
}

// Handshakes that never come to an end, or whose client has gone, leave nothing.
func TestHandshakeCutOff(t *testing.T) {
	t.Parallel()
	s := serveSocket(t, router.Options{}, nil)
	good := s.handshake()
	for _, cut := range []int{0, 1, 20, len(good) / 2, len(good) - 2, len(good)} {
		for _, leave := range []func(*peer){(*peer).hangUp, (*peer).reset} {
			p := s.connect()
			p.write([]byte(good[:cut]))
			leave(p)
		}
	}
	s.recovered()
}

// Thousands of connections come and go in every way at once; nothing of them
// stays.
func TestSoak(t *testing.T) {
	const workers, each = 40, 60
	s := serveSocket(t, router.Options{}, func(r *router.Router) {
		subscribing(r)
		router.RPC(r, "wait", func(c *router.Context, _ struct{}) (int, error) { <-c.Done(); return 0, c.Err() })
	})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // the second empties what pools held on to
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var stop sync.WaitGroup
	done := make(chan struct{})
	stop.Go(func() { // messages while connections come and go
		for {
			select {
			case <-done:
				return
			default:
				spend(time.Millisecond)
				_ = s.r.Publish(t.Context(), "room", "news", numbered{Fill: strings.Repeat("x", 3000)}, router.PublishOptions{Overflow: router.OverflowDropOldest})
			}
		}
	})
	round := func(accepted int64) {
		var crowd sync.WaitGroup
		for range workers {
			crowd.Go(func() {
				for range each {
					p := s.dial()
					switch rand.N(8) {
					case 0: // nothing
					case 1:
						p.write(echo("1", "a"))
					case 2:
						p.write(echo("1", "a")[:7])
					case 3:
						p.write(join1("room"))
					case 4:
						p.write(join(join1("room"), textFrame(`{"type":"wait","meta":{"correlationId":"w"}}`)))
					case 5:
						p.write(frame(opText, strings.Repeat("x", 20_000)))
					case 6:
						p.write(frame(fin|rsv1|opText, ""))
					case 7:
						p.write(join(echo("1", "a"), closing(1000, "")))
					}
					if rand.N(2) == 0 {
						p.hangUp()
					} else {
						p.reset()
					}
				}
			})
		}
		crowd.Wait()
		eventually(t, "all connections to have come and gone", func() bool {
			stats := s.r.Stats()
			return stats.Accepted == accepted && stats.Connections == 0 && s.r.Stats().Topics == 0
		})
		s.hangUpAll()
	}
	round(workers * each) // fills pools and caches
	before := heap()
	round(2 * workers * each)
	// A connection that was kept would be some kilobytes. What the last goroutines of connections hold is let go
	// when they have returned.
	eventually(t, "the heap to be as small as before, but for 512 bytes a connection", func() bool {
		return int64(heap())-int64(before) <= workers*each*512
	})
	close(done)
	stop.Wait()
	s.recovered()
}
