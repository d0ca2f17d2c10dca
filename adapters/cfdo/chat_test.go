package cfdo_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// The chat of the examples, as the README runs it: what a tab has used is charged in
// the objects.
func TestChatKeepsItsLimitsInObjects(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	binary := filepath.Join(t.TempDir(), "chat")
	build := exec.Command("go", "build", "-o", binary, "./examples/chat")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the chat: %v\n%s", err, out)
	}
	url := startChat(t, binary, w.URL)
	token := fmt.Sprintf("%016x", rand.Uint64())
	user := sha256.Sum256([]byte(token))
	tab := limit.New(openStore(t, w.URL, cfdo.Options{Tenant: cfdo.KeyPart(1, "user"), Remember: -1}),
		limit.TokenBucket{Capacity: 10, Refill: 1, Per: 3 * time.Second}, limit.Options{Name: "tab", Timeout: -1})
	key := tab.Key(nil).Part("user").Part("").Part(hex.EncodeToString(user[:8])).Part("room.join")

	ctx, cancel := context.WithTimeout(t.Context(), poll.Guard)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{Subprotocols: []string{"chat", "bearer." + token}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	// On a slow machine the objects may not answer in time and the chat decides by
	// itself, until they do.
	for left := int64(10); left > 5; {
		if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"room.join","meta":{"correlationId":"1"},"payload":{"room":"lobby","name":"Ann"}}`)); err != nil {
			t.Fatal(err)
		}
		for answer := ""; !strings.Contains(answer, `"correlationId":"1"`); {
			_, b, err := ws.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			answer = string(b)
		}
		d, err := tab.Peek(ctx, key, 1)
		if err != nil {
			t.Fatal(err)
		}
		left = d.Remaining
	}
}

// startChat starts the chat and returns the URL of its WebSockets.
func startChat(t *testing.T, binary, worker string) (url string) {
	t.Helper()
	chat := exec.Command(binary, "-addr", "127.0.0.1:0", "-cfdo", worker)
	chat.Env = append(os.Environ(), "LIMITS_SECRET="+workerdtest.Secret)
	out, err := chat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = chat.Process.Kill()
		_ = chat.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the chat says %q, and then: %v", line, err)
	}
	return "ws://" + regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line) + "/ws"
}
