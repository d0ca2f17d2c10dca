package router_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/race"
	"github.com/wskit/wskit/router"
)

// Over TLS the same holds as over TCP where the server meets its socket: for clients that are slow, stop reading or
// disappear, for full queues, and for what comes in pieces. What is measured in time is in liveness_test.go, also
// under TLS, and the framing in rfc_test.go.
func TestOverTCPAndTLS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		test func(*testing.T, transport)
	}{
		{"slow consumer", testSlowConsumerIsCutOffAndDelaysNoOther},
		{"replies that are not read", testRepliesToAClientThatNeverReads},
		{"write timeout", testWriteTimeout},
		{"reader that resumes", testReaderThatResumes},
		{"disappearing", testDisappearing},
		{"half closed", testHalfClosedClientGetsItsAnswers},
		{"progress without reading", testProgressToAClientThatDoesNotRead},
		{"leaving behind a full queue", testAClientThatEndsBehindAFullQueueIsDetected},
		{"order under back-pressure", testOrderOfEventsUnderBackpressure},
		{"sizes", testSizes},
		{"reply larger than the queue", testReplyLargerThanTheQueue},
		{"early data", testEarlyData},
		{"slow consumer's socket", testSlowConsumersSocketEnds},
	} {
		for name, serve := range map[string]transport{"TCP": serveSocket, "TLS": serveTLS} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test.test(t, serve)
			})
		}
	}
}

// A server that offers HTTP/2, as those of net/http do, needs no setting: connections are
// opened by HTTP/1.1, and a request by HTTP/2 is refused with what to do instead.
func TestServerThatOffersHTTP2(t *testing.T) {
	t.Parallel()
	r := router.New()
	router.RPC(r, "echo", func(_ *router.Context, m said) (said, error) { return m, nil })
	s := httptest.NewUnstartedServer(r)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a request by %s is answered %s, want HTTP/2 and 426", res.Proto, res.Status)
	}
	ws, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{HTTPClient: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"echo","meta":{"correlationId":"1"},"payload":{"text":"x"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, answer, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(answer), `"x"`) {
		t.Errorf("got %q, %v", answer, err)
	}
}

// An idle connection holds what TLS needs, a stack that is small, and nothing else.
func TestIdleConnectionsOverTLSHoldNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("stacks are larger under the race detector")
	}
	const connections = 200
	s := serveTLS(t, router.Options{}, nil)
	inUse := func() int64 {
		runtime.GC()
		runtime.GC() // the first leaves what pools hold
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	p := s.dial()
	p.write(echo("1", "warm"))
	p.expect("reply 1 warm")
	before := inUse()
	for i := range connections {
		p := s.dial()
		p.write(echo(fmt.Sprint(i), "x"))
		p.expect(fmt.Sprintf("reply %d x", i))
	}
	// The clients are here, too: they hold as much TLS, and 4 KB to read by.
	const each = 32 << 10
	eventually(t, "a connection and its client to hold 32 KiB at most", func() bool { return inUse()-before <= connections*each })
}
