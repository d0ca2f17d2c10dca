package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

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

	dial := func(ctx context.Context, query string, header http.Header) (*websocket.Conn, error) {
		c, _, err := websocket.Dial(ctx, "ws://"+s.addr+"/ws"+query, &websocket.DialOptions{HTTPHeader: header})
		if err != nil {
			return nil, err
		}
		c.SetReadLimit(-1)
		go func() {
			for {
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
			}
		}()
		return c, nil
	}
	tabs := 0
	send := func(join string, kind websocket.MessageType, frame string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), poll.Guard)
		defer cancel()
		tabs++ // a tab of its own: the limit of connections of one would refuse most
		c, err := dial(ctx, "", http.Header{"Authorization": {fmt.Sprint("Bearer ", token, tabs)}})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Write(ctx, websocket.MessageText, []byte(join))
		_ = c.Write(ctx, kind, []byte(frame))
		_ = c.Ping(ctx) // the frames before it have been handled, or the connection is closed
		_ = c.Close(4000, payload)
	}
	bearer := http.Header{"Authorization": {"Bearer " + token}}
	places := []http.Header{
		bearer, {"Sec-Websocket-Protocol": {"wskit, bearer." + token}}, {"Cookie": {"sid=" + token}},
		{"Origin": {"https://evil.test/" + token}, "Authorization": {"Bearer " + token}}, {"Origin": {"https://" + token + "@evil.test"}},
		{"X-Forwarded-For": {token}}, {"Host": {token}},
	}
	attack := func() {
		ctx := t.Context()
		for _, header := range places {
			for _, query := range []string{"", "?access_token=" + token, "?access_token=" + token + "%zz"} {
				if c, err := dial(ctx, query, header); err == nil { // else it is refused
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
				send(join, kind, frame)
			}
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
