package e2e

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Three servers on one Redis are one chat with one limit for each tab; when one is
// killed the others go on, and notice who went with it.
func TestThreeServersAreOneChat(t *testing.T) {
	redis := startRedis(t)
	a, b, c := startChat(t, "-redis", redis), startChat(t, "-redis", redis), startChat(t, "-redis", redis)
	ada, bob, cid := enter(t, a, "Ada"), enter(t, b, "Bob"), enter(t, c, "Cid")
	for _, tb := range []*tab{ada, bob, cid} {
		tb.people("Ada", "Bob", "Cid")
	}
	for _, from := range []*tab{ada, bob, cid} {
		from.say("Hello from " + from.name)
		for _, to := range []*tab{ada, bob, cid} {
			to.sees("Hello from " + from.name)
		}
	}

	b.crash()
	bob.until("the page waits", waiting)
	ada.say("Where is Bob?")
	cid.sees("Where is Bob?")
	ada.people("Ada", "Cid")
	cid.people("Ada", "Cid")
	b.start()
	bob.connected()
	bob.sees("Where is Bob?")
	for _, tb := range []*tab{ada, bob, cid} {
		tb.people("Ada", "Bob", "Cid")
	}

	ada.click("flood")
	ada.until("the flood is over", floodIsOver)
	again := openTab(t, c.url(), "Ada") // the same tab, as far as a server can tell
	eval[any](again, `void (sessionStorage["wskit.tab"] = `+js(eval[string](ada, `sessionStorage["wskit.tab"]`))+`)`)
	again.reload()
	again.join()
	again.click("flood")
	again.until("the flood is over", floodIsOver)
	if accepted := eval[int](again, `Number(document.getElementById("accepted").textContent)`); accepted > 5 {
		t.Errorf("another server admits %d messages more", accepted)
	}
	cid.people("Ada", "Bob", "Cid")
}

// startRedis starts a Redis on a port of its own and returns its URL.
func startRedis(t *testing.T) (url string) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is not on the PATH; make redis installs it")
		}
		t.Skip("redis-server is not on the PATH; make redis installs it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	redis := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = redis.Process.Kill()
		_ = redis.Wait()
	})
	for giveUp := time.Now().Add(hangGuard); ; time.Sleep(pollEvery) {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			_ = nc.Close()
			return "redis://" + addr
		}
		if time.Now().After(giveUp) {
			t.Fatalf("redis-server does not listen on %s: %v", addr, err)
		}
	}
}
