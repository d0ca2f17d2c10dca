package router_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/internal/transcript"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/gate"
	"github.com/wskit/wskit/router"
)

// Whatever carries a token, whatever becomes of the handshake or the renewal: no log line has the
// token, and no answer does.
func TestTokensAreNeitherLoggedNorEchoed(t *testing.T) {
	t.Parallel()
	const secret = "t0ken-5f1c" // of characters that no encoding changes
	outcomes := map[string]error{
		"ok": nil, "denied": errors.PermissionDenied.New("denied"), "unauthenticated": errors.Unauthenticated.New("who?"),
		"limited": errors.ResourceExhausted.New("slow down"), "fault": errors.New("the database is away"),
	}
	places := map[string]string{
		"authorization":      "Authorization: Bearer " + secret,
		"subprotocol":        "Sec-WebSocket-Protocol: auth." + secret + ", chat",
		"subprotocol, last":  "Sec-WebSocket-Protocol: chat, AUTH." + secret,
		"default, not set":   "Sec-WebSocket-Protocol: bearer." + secret + ", chat",
		"query":              "?ticket=" + secret,
		"API key":            "X-API-Key: " + secret,
		"cookie":             "Cookie: sid=" + secret,
		"origin":             "Origin: https://evil.test/?ticket=" + secret,
		"origin, opaque":     "Origin: app:" + "/" + secret,
		"origin, userinfo":   "Origin: https://" + secret + "@evil.test",
		"origin, malformed":  "Origin: http://evil.test:%zz/" + secret,
		"origins":            "Origin: http://a.test/" + secret + "\r\nOrigin: http://b.test/" + secret,
		"traceparent":        "Traceparent: 00-" + secret,
		"malformed, version": "Sec-WebSocket-Version: " + secret,
		"malformed, key":     "Sec-WebSocket-Key: " + secret,
		"body":               "Content-Length: 3\r\nAuthorization: Bearer " + secret,
		"extension":          "Sec-WebSocket-Extensions: permessage-deflate; " + secret,
		"forwarded":          "X-Forwarded-Proto: " + secret + "\r\nX-Client-Id: " + secret + "\r\nX-Trace-Id: " + secret,
	}
	for outcome, refusal := range outcomes {
		for _, accept := range []bool{false, true} {
			t.Run(fmt.Sprint(outcome, " accept ", accept), func(t *testing.T) {
				var log transcript.Transcript
				logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				fast := limit.TokenBucket{Capacity: 1000, Refill: 1000, Per: time.Second}
				opts := router.Options{
					Logger: logger, Handshake: router.Handshake{RefuseOverHTTP: !accept, TokenSubprotocol: "auth.", TokenQuery: "ticket"}, Compression: true,
					Authenticate: func(req *http.Request) (ingress.Identity, error) {
						return ingress.Identity{User: "ann"}, refusal
					},
					Gate: gate.New(memory.NewStore(), gate.Options{
						PerIP: fast, PerIdentity: limit.TokenBucket{Capacity: 3, Refill: 1, Per: time.Hour}, MaxPerUser: -1,
						Limiter: limit.Options{Logger: logger},
					}),
				}
				s := serveSocket(t, opts, nil)
				statuses := make(map[int]int)
				for place, line := range places {
					for _, page := range []string{"X-Page: none", "Origin: http://" + s.addr} {
						request := s.handshake(line, page)
						if strings.HasPrefix(line, "?") {
							request = strings.Replace(s.handshake(page), "/ws", "/ws"+line, 1)
						}
						p := s.connect()
						p.write([]byte(request))
						res := p.response()
						statuses[res.StatusCode]++
						head, err := httputil.DumpResponse(res, res.StatusCode != 101)
						if err != nil {
							t.Fatal(err)
						}
						if res.StatusCode == 101 && refusal != nil {
							rest, _ := io.ReadAll(p.br)
							head = append(head, rest...)
						}
						if bytes.Contains(bytes.ToLower(head), []byte(secret)) {
							t.Errorf("%s: the answer has the token:\n%s", place, head)
						}
						p.hangUp()
					}
				}
				s.settled()
				if lines := log.String(); strings.Contains(strings.ToLower(lines), secret) {
					t.Errorf("the log has the token:\n%s", lines)
				} else if outcome == "fault" && !strings.Contains(lines, "database") {
					t.Errorf("the log is\n%s", lines)
				}
				if len(statuses) < 3 {
					t.Errorf("the answers have the statuses %v: not all paths were taken", statuses)
				}
			})
		}
	}

	t.Run("renewals", func(t *testing.T) {
		var log transcript.Transcript
		opts := router.Options{
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Strict: true,
			Renew: func(_ context.Context, c *router.Conn, token string) (ingress.Identity, error) {
				switch token {
				case secret + "-panic":
					panic("in Renew")
				case secret + "-fault":
					return *c.Identity(), errors.New("the token server is away")
				case secret + "-user":
					return ingress.Identity{User: "eve"}, nil
				}
				return *c.Identity(), nil
			},
		}
		s := serveSocket(t, opts, nil)
		p := s.dial()
		for i, payload := range []string{
			`{"token":"` + secret + `"}`, `{"token":"` + secret + `-panic"}`, `{"token":"` + secret + `-fault"}`, `{"token":"` + secret + `-user"}`,
			`{"token":["` + secret + `"]}`, `"` + secret + `"`, `{"token":"` + secret + `","token":"` + secret + `"}`, `{"token":"` + secret + `\ud800"}`,
			`{"token":"` + secret + strings.Repeat("x", 8<<10) + `"}`, `{"token":"` + secret + strings.Repeat("x", 80<<10) + `"}`, `{"token":"` + secret + `"`,
		} {
			p.write(textFrame(fmt.Sprintf(`{"type":"$ws:renew","meta":{"correlationId":"r%d"},"payload":%s}`, i, payload)))
			f, err := p.read()
			if err != nil || bytes.Contains(f.payload, []byte(secret)) {
				t.Errorf("%.60s: %v, the answer is %s", payload, err, f.payload)
			}
		}
		p.bye()
		s.settled()
		if lines := log.String(); strings.Contains(lines, secret) || !strings.Contains(lines, "in Renew") {
			t.Errorf("the log is\n%s", lines)
		}
	})
}
