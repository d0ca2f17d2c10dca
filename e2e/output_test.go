package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
)

// What a server writes has no token, no password and nothing of a message, whatever it is sent and whatever fails.
func TestNothingSecretIsWritten(t *testing.T) {
	nightly(t)
	const token, payload, password = "t0ken5f1cSECRETt0ken5f1c", "PAYLOADSECRET", "PASSWORDSECRET"
	redis := redistest.Start(t)
	addUser := func() { redis.Do("ACL", "SETUSER", "chat", "on", ">"+password, "~*", "&*", "+@all") }
	addUser()
	at, err := url.Parse(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("chat", password)
	s := startChat(t, "-redis", at.String(), "-inspect")

	ctx, cancel := context.WithTimeout(t.Context(), poll.Guard)
	defer cancel()
	dial := func(query string, header http.Header) *websocket.Conn {
		c, _, err := websocket.Dial(ctx, "ws://"+s.addr+"/ws"+query, &websocket.DialOptions{HTTPHeader: header})
		if err != nil {
			return nil // it is refused
		}
		c.SetReadLimit(-1)
		go func() {
			for {
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
			}
		}()
		return c
	}
	bearer := http.Header{"Authorization": {"Bearer " + token}}
	places := []http.Header{
		bearer, {"Sec-Websocket-Protocol": {"wskit, bearer." + token}}, {"Cookie": {"sid=" + token}},
		{"Origin": {"https://evil.test/" + token}, "Authorization": {"Bearer " + token}}, {"Origin": {"https://" + token + "@evil.test"}},
		{"X-Forwarded-For": {token}}, {"Host": {token}},
	}
	attack := func() {
		for _, header := range places {
			for _, query := range []string{"", "?access_token=" + token, "?access_token=" + token + "%zz"} {
				if c := dial(query, header); c != nil {
					_ = c.CloseNow()
				}
			}
		}
		join := fmt.Sprintf(`{"type":"room.join","meta":{"correlationId":%q},"payload":{"room":"lobby","name":%q}}`, payload, payload)
		for _, frame := range []string{
			fmt.Sprintf(`{"type":"chat.send","meta":{"correlationId":"1"},"payload":{"id":%q,"text":%q}}`, strings.Repeat("a", 32), payload),
			fmt.Sprintf(`{"type":"chat.send","meta":{"correlationId":"1"},"payload":{"id":5,"text":{%q:1}}}`, payload),
			fmt.Sprintf(`{"type":"room.join","meta":{"correlationId":"2"},"payload":{"room":"%s/..","name":""}}`, payload),
			fmt.Sprintf(`{"type":%q,"meta":{"correlationId":"3"}}`, payload),
			fmt.Sprintf(`{"type":"$ws:%s"}`, payload),
			fmt.Sprintf(`{"type":"$ws:resume","meta":{"correlationId":"4"},"payload":{"topics":[{"ticket":%q,"pos":%q}]}}`, payload, payload),
			fmt.Sprintf(`{"type":"$ws:renew","meta":{"correlationId":"5"},"payload":{"token":%q}}`, token),
			fmt.Sprintf(`{"type":"$ws:answer","meta":{"correlationId":"$ws:%s"},"payload":1}`, payload),
			fmt.Sprintf(`{"type":"chat.send","meta":{"traceparent":%q,"idempotencyKey":%q}}`, payload, payload),
			`{"type":"chat.send","payload":` + payload, payload, "", `{"type":"` + payload + "\xff\"}",
			`{"type":"chat.send","payload":"` + strings.Repeat(payload, 10_000) + `"}`,
		} {
			for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
				c := dial("", bearer)
				if c == nil {
					continue
				}
				_ = c.Write(ctx, websocket.MessageText, []byte(join))
				_ = c.Write(ctx, kind, []byte(frame))
				_ = c.Ping(ctx) // the frames before it have been handled, or the connection is closed
				_ = c.Close(4000, payload)
			}
			time.Sleep(50 * time.Millisecond) // below the limit of connections
		}
		for _, path := range []string{"/inspect/api/overview?token=" + token, "/inspect/api/" + payload, "/" + payload, "/ws?access_token=" + token} {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+path, strings.NewReader(payload))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
			}
		}
	}
	attack()
	redis.Stall()
	attack()
	redis.Kill()
	attack()
	redis.Run() // without the user
	attack()
	addUser()
	s.stop()
	out := s.output.String()
	for _, secret := range []string{token, payload, password} {
		for line := range strings.Lines(out) {
			if strings.Contains(line, secret) {
				t.Errorf("the server writes %s in\n%s", secret, line)
			}
		}
	}
	if !strings.Contains(out, "wskit:") && !strings.Contains(out, "redis") {
		t.Errorf("the server says nothing of what has failed:\n%s", out)
	}
}
