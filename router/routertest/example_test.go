package routertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

type (
	Join struct {
		Room string `json:"room" validate:"required"`
	}
	Joined struct {
		Members int `json:"members"`
	}
	Say struct {
		Room string `json:"room"`
		Text string `json:"text"`
	}
)

// newRouter is what is tested: the application's own router.
func newRouter() *router.Router {
	r := router.New()
	router.RPC(r, "room.join", func(c *router.Context, q Join) (Joined, error) {
		if err := c.Subscribe("room:" + q.Room); err != nil {
			return Joined{}, err
		}
		return Joined{Members: r.LocalSubscribers("room:" + q.Room)}, nil
	})
	router.On(r, "chat.send", func(c *router.Context, m Say) error {
		return c.Publish("room:"+m.Room, "chat.message", m)
	})
	router.RPC(r, "report", func(c *router.Context, _ struct{}) (string, error) {
		if err := c.Progress(50); err != nil {
			return "", err
		}
		<-c.Done() // a report that is never ready
		return "", c.Err()
	})
	leave := router.DeclareQuestion[string, bool](r, "really.leave")
	router.RPC(r, "room.leave", func(c *router.Context, q Join) (bool, error) {
		return leave.Ask(c, c.Conn(), "Leave "+q.Room+"?")
	})
	return r
}

func testMessagesReachTheRoom(t *testing.T) {
	s := routertest.New(t, newRouter())
	ann, bob := s.Dial(), s.Dial()
	routertest.ExpectReply[Joined](ann.Request("room.join", Join{Room: "lobby"}))
	if got := routertest.ExpectReply[Joined](bob.Request("room.join", Join{Room: "lobby"})); got.Members != 2 {
		t.Errorf("bob finds %d members", got.Members)
	}
	ann.Send("chat.send", Say{Room: "lobby", Text: "hi"})
	if got := routertest.ExpectEvent[Say](bob, "chat.message"); got.Text != "hi" {
		t.Errorf("bob receives %q", got.Text)
	}
}

func testRoomNeedsName(t *testing.T) {
	c := routertest.New(t, newRouter()).Dial()
	c.Request("room.join", Join{}).ExpectError(errors.InvalidArgument)
}

// A message as a client of another make sends it.
func testStrangeMessageIsAnswered(t *testing.T) {
	c := routertest.New(t, newRouter()).Dial()
	c.SendRaw(`{"type":"room.join","meta":{"correlationId":"7"},"payload":[]}`)
	if f := routertest.ExpectFailure(c, "7"); f.Code != errors.InvalidArgument || f.Retryable {
		t.Errorf("failed with %+v", f)
	}
}

// The server asks before it acts.
func testLeavingIsConfirmed(t *testing.T) {
	c := routertest.New(t, newRouter()).Dial()
	routertest.Answer(c, "really.leave", func(text string) (bool, error) { return text == "Leave lobby?", nil })
	if left := routertest.ExpectReply[bool](c.Request("room.leave", Join{Room: "lobby"})); !left {
		t.Error("it was not left")
	}
}

// Within synctest waiting takes no time, and that nothing comes can be reported: when
// all goroutines wait, all frames have arrived.
func testOthersHearNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := routertest.New(t, newRouter())
		ann, eve := s.Dial(), s.Dial()
		ann.Send("chat.send", Say{Room: "lobby", Text: "hi"})
		synctest.Wait()
		if frames := eve.Frames(); len(frames) > 0 {
			t.Errorf("eve receives %v", frames)
		}
	})
}

func testReportTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := routertest.New(t, newRouter()).Dial().Request("report", nil)
		if percent := routertest.ExpectProgress[int](q); percent != 50 {
			t.Errorf("progress is %d", percent)
		}
		time.Sleep(30 * time.Second) // the RequestTimeout
		q.ExpectError(errors.DeadlineExceeded)
	})
}

// The tests of a small chat. In a file of their own they are called TestRoom and
// so on, for go test to find them.
func Example() {
	_ = []func(*testing.T){
		testMessagesReachTheRoom,
		testRoomNeedsName,
		testStrangeMessageIsAnswered,
		testOthersHearNothing,
		testLeavingIsConfirmed,
		testReportTakesTooLong,
	}
}
