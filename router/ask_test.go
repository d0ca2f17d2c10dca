package router_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/router/routertest"
)

// devices are connections of ann, two at each of two processes that share a broker.
type devices struct {
	*testing.T
	routers  []*router.Router
	brokers  []*cutBroker
	confirms []router.Question[confirm, confirmed]
	clients  []*routertest.Client
}

func askDevices(t *testing.T, test func(d *devices)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &devices{T: t}
		shared := memory.NewBroker()
		for range 2 {
			b := newCutBroker(shared)
			r := router.New(router.Options{
				Backend: adapters.Backend{Broker: b, ProcessTimeout: testProcessTimeout}, Authenticate: asUser,
				Addressing: router.AddressingOptions{Enabled: true, Timeout: 4 * time.Second},
				Liveness:   router.Liveness{PingInterval: -1},
			})
			d.confirms = append(d.confirms, router.DeclareQuestion[confirm, confirmed](r, "confirm"))
			s := routertest.New(t, r)
			for range 2 {
				d.clients = append(d.clients, s.Dial(routertest.DialOptions{Header: http.Header{"X-Tenant": {"acme"}, "X-User": {"ann"}}}))
			}
			d.routers, d.brokers = append(d.routers, r), append(d.brokers, b)
		}
		test(d)
	})
}

// ask asks all devices of ann, as the first process, and returns what becomes of it in one line.
func (d *devices) ask(ctx context.Context) <-chan string {
	result := make(chan string, 1)
	go func() {
		a, err := d.confirms[0].AskFirst(ctx, d.routers[0].User("acme", "ann"), confirm{"Pay?"})
		text := outcome(a, err)
		if e := errors.From(err); err != nil && e.Message != "" {
			text += " " + e.Message
		}
		result <- text
	}()
	return result
}

// shown is the id of the question that a client has got.
func (d *devices) shown(c *routertest.Client) string {
	d.Helper()
	f := c.ExpectAny("confirm")
	if string(f.Payload) != `{"text":"Pay?"}` {
		d.Errorf("the question is %s", f.Raw)
	}
	return f.Meta.CorrelationID
}

func reply(c *routertest.Client, id, payload string) {
	c.SendRaw(fmt.Sprintf(`{"type":"$ws:answer","meta":{"correlationId":%q},%s}`, id, payload))
}

// pass lets time of the bubble pass.
func (d *devices) pass(t time.Duration) {
	synctest.Wait()
	time.Sleep(t)
}

func (d *devices) expect(got <-chan string, want string) {
	d.Helper()
	synctest.Wait()
	select {
	case text := <-got:
		if !strings.HasPrefix(text, want) {
			d.Errorf("the outcome is %q, want %q", text, want)
		}
	default:
		d.Errorf("there is no outcome, want %q", want)
	}
}

// A question is on all devices, and when one of any process has answered it, it is on no other any more.
func TestTheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	askDevices(t, func(d *devices) {
		for first, winner := range d.clients {
			got := d.ask(d.Context())
			ids := make([]string, len(d.clients))
			for i, c := range d.clients {
				ids[i] = d.shown(c)
			}
			refused := d.clients[(first+1)%4]
			reply(refused, ids[(first+1)%4], `"payload":{"yes":true,"note":"too long"}`) // is not valid, and does not count
			refused.ExpectError(errors.InvalidArgument)
			reply(winner, ids[first], fmt.Sprintf(`"payload":{"yes":true,"note":"%d"}`, first))
			d.expect(got, fmt.Sprint("true", first))
			for i, c := range d.clients {
				var aborted []string
				for _, f := range c.Frames() {
					if f.Type == "$ws:abort" {
						aborted = append(aborted, f.Meta.CorrelationID)
					}
				}
				want := []string{ids[i]}
				if c == winner || c == refused {
					want = nil
				}
				if !slices.Equal(aborted, want) {
					t.Errorf("device %d answers, and device %d gets $ws:abort for %q, want %q", first, i, aborted, want)
				}
			}
		}
	})
}

// Without an answer the outcome says why.
func TestNoDeviceAnswers(t *testing.T) {
	t.Parallel()
	refuse := `"error":{"code":"DECLINED","message":"not now"}`
	for name, c := range map[string]struct {
		do   func(d *devices, ids []string, cancel func())
		want string
	}{
		"all decline": {func(d *devices, ids []string, _ func()) {
			for i, c := range d.clients {
				reply(c, ids[i], refuse)
			}
		}, "DECLINED not now"},
		"all have gone": {func(d *devices, _ []string, _ func()) {
			for _, c := range d.clients {
				c.Close()
			}
		}, "UNAVAILABLE"},
		"one declines, and the others have gone": {func(d *devices, ids []string, _ func()) {
			for _, c := range d.clients[:3] {
				c.Close()
			}
			reply(d.clients[3], ids[3], refuse)
		}, "DECLINED not now"},
		"time":    {nil, "DEADLINE_EXCEEDED"},
		"context": {func(_ *devices, _ []string, cancel func()) { cancel() }, "CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			askDevices(t, func(d *devices) {
				ctx, cancel := context.WithCancel(d.Context())
				defer cancel()
				got := d.ask(ctx)
				ids := make([]string, len(d.clients))
				for i, c := range d.clients {
					ids[i] = d.shown(c)
				}
				if c.do != nil {
					c.do(d, ids, cancel)
				} else {
					d.pass(30 * time.Second)
				}
				d.expect(got, c.want)
			})
		})
	}
}

// With a process that is not reached, an answer of another one counts, and without any the call fails as others do.
func TestAskingWithoutAProcess(t *testing.T) {
	t.Parallel()
	askDevices(t, func(d *devices) {
		counts(d.T, d.routers[0], "both processes are known", 4)
		d.brokers[1].cut()
		got := d.ask(d.Context())
		reply(d.clients[0], d.shown(d.clients[0]), `"payload":{"yes":true}`)
		d.expect(got, "true")
		d.shown(d.clients[1])
		got = d.ask(d.Context())
		for _, c := range d.clients[:2] {
			reply(c, d.shown(c), `"error":{"code":"DECLINED","message":"no"}`)
		}
		d.pass(5 * time.Second)
		d.expect(got, "UNAVAILABLE")
	})
}

// Other programs ask by the type of a question and JSON.
func TestAskJSON(t *testing.T) {
	t.Parallel()
	askDevices(t, func(d *devices) {
		ann := d.routers[0].User("acme", "ann")
		got := make(chan string, 1)
		go func() {
			answer, err := ann.AskJSON(d.Context(), "confirm", []byte(`{"text": "Pay?"}`))
			got <- fmt.Sprintf("%s %v", answer, err)
		}()
		reply(d.clients[3], d.shown(d.clients[3]), `"payload":{"yes":true}`)
		d.expect(got, `{"yes":true} <nil>`)
		for _, c := range []struct {
			typ, payload, user string
			want               errors.Code
		}{
			{"confrim", `{}`, "ann", errors.NotFound},
			{"confirm", `{"txt":"Pay?"}`, "ann", errors.InvalidArgument},
			{"confirm", `{"text":"Pay?"}`, "bob", errors.NotFound},
		} {
			if _, err := d.routers[0].User("acme", c.user).AskJSON(d.Context(), c.typ, []byte(c.payload)); errors.CodeOf(err) != c.want {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}
