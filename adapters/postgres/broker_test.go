package postgres_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/postgres"
	"github.com/wskit/wskit/adapters/postgres/internal/pgtest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/pubsub"
	"github.com/wskit/wskit/pubsub/pubsubtest"
)

// open opens a backend that is patient: a call of a test that waits for its turn on a busy machine has not failed.
func open(t *testing.T, url string, o postgres.Options) adapters.Backend {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, poll.Guard/2)
	b, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func newBroker(t *testing.T, url string, o postgres.Options) *postgres.Broker {
	t.Helper()
	return open(t, url, o).Broker.(*postgres.Broker)
}

func TestBroker(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	pubsubtest.Run(t, func(t *testing.T, n int) []pubsub.Broker {
		all := make([]pubsub.Broker, n)
		for i := range all {
			all[i] = newBroker(t, s.URL(), postgres.Options{MaxConns: 4})
		}
		return all
	})
}

// logFaults damage the logs of a server.
func logFaults(s *pgtest.Server) pubsubtest.LogFaults {
	return pubsubtest.LogFaults{
		LoseLog: func(t *testing.T, _ pubsub.Log, topic string) {
			s.Do("delete from wskit.messages where topic = $1", []byte(topic))
			s.Do("delete from wskit.ids where topic = $1", []byte(topic))
			if n := s.Do("delete from wskit.logs where topic = $1", []byte(topic)); n != 1 {
				t.Errorf("%d logs lost", n)
			}
		},
		LoseTail: func(t *testing.T, _ pubsub.Log, topic string, n int) {
			s.Do(

				"delete from wskit.messages where topic = $1 and off > (select head - $2 from wskit.logs where topic = $1)",
				[]byte(topic), n,
			)
			s.Do("delete from wskit.ids where topic = $1", []byte(topic))
			s.Do(

				`update wskit.logs l set head = head - $2, tag = coalesce((select tag from wskit.messages m where m.topic = $1 and off = l.head - $2), 0),
				bytes = coalesce((select bytes from wskit.messages m where m.topic = $1 and off = l.head - $2), 0) where topic = $1`,
				[]byte(topic), n,
			)
		},
	}
}

func TestBrokerIsALog(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	proxies := make(map[pubsub.Log]*redistest.Proxy) // parts run one after the other
	faults := logFaults(s)
	faults.Interrupt = func(_ *testing.T, l pubsub.Log, meanwhile func()) {
		proxies[l].Cut()
		meanwhile()
		proxies[l].Mend()
	}
	pubsubtest.RunLog(t, func(t *testing.T, n int) []pubsub.Log {
		all := make([]pubsub.Log, n)
		for i := range all {
			proxy := redistest.StartProxy(t, s.Addr)
			all[i] = newBroker(t, s.URLAt(proxy.Addr), postgres.Options{MaxConns: 4})
			proxies[all[i]] = proxy
		}
		return all
	}, faults)
}

// What was published before Subscribe was called does not come, although its notification is still on its way: with and
// without a subscription of the topic in the process, with and without a history.
func TestSubscriptionsGetNothingOlder(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	proxy := redistest.StartProxy(t, s.Addr)
	far, near := newBroker(t, s.URLAt(proxy.Addr), postgres.Options{}), newBroker(t, s.URL(), postgres.Options{})
	for _, history := range []bool{false, true} {
		for _, others := range []bool{false, true} {
			topic := fmt.Sprint("room ", history, others)
			publish := func(frame string) {
				t.Helper()
				m := pubsub.Message{Topic: topic, Frame: []byte(frame)}
				var err error
				if history {
					_, err = near.Append(t.Context(), m, plenty, "")
				} else {
					err = near.Publish(t.Context(), m)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if others {
				if _, err := far.Subscribe(t.Context(), topic, func(pubsub.Message) {}); err != nil {
					t.Fatal(err)
				}
			}
			proxy.Delay(200 * time.Millisecond)
			publish("old")
			got := make(chan string, 10)
			if _, err := far.Subscribe(t.Context(), topic, func(m pubsub.Message) { got <- string(m.Frame) }); err != nil {
				t.Fatal(err)
			}
			publish("new")
			if frame := poll.Receive(t, got, "a message"); frame != "new" {
				t.Errorf("%s: the subscription begins with %q", topic, frame)
			}
			proxy.Delay(0)
		}
	}
}

// Subscribe waits for the notifications of before: here they wait for a large message, whose table is locked.
func TestSubscribeWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	b := newBroker(t, s.URL(), postgres.Options{})
	s.Do("insert into wskit.large (body) values ('{}')")
	release := lock(t, s, "lock table wskit.large in access exclusive mode")
	s.Do("select pg_notify('wskit_topics', 'r1')") // which is read from the table
	subscribed := make(chan error, 1)
	go func() {
		_, err := b.Subscribe(t.Context(), "x", func(pubsub.Message) {})
		subscribed <- err
	}()
	s.Until(t, "the topic to be registered", "select 1 from wskit.receivers where topic = md5('x')")
	if err, ok := poll.ReceiveWithin(processTimeout/10, subscribed); ok {
		t.Fatalf("Subscribe returned before notifications of before were taken: %v", err)
	}
	release()
	if err := poll.Receive(t, subscribed, "Subscribe to return"); err != nil {
		t.Fatal(err)
	}
}
