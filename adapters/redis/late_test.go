package redis_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/redistest"
	"github.com/wskit/wskit/limit"
)

// A heldUp connection is that of a goroutine that gets no CPU when an answer has come: a read
// fails because its deadline has passed, and what has arrived is there for one with a later deadline.
type heldUp struct {
	net.Conn
	mu       sync.Mutex
	deadline time.Time
	arrived  []byte
	missed   time.Time // the deadline that has passed since
}

func (c *heldUp) SetDeadline(at time.Time) error {
	c.set(at)
	return c.Conn.SetWriteDeadline(at)
}

func (c *heldUp) SetReadDeadline(at time.Time) error {
	c.set(at)
	return nil
}

func (c *heldUp) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = at
}

func (c *heldUp) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.arrived) == 0 {
		// Redis has answered in time, however busy this machine is.
		if err := c.Conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return 0, err
		}
		all := make([]byte, 64<<10)
		n, err := c.Conn.Read(all)
		if err != nil {
			return 0, err
		}
		c.arrived, c.missed = all[:n], c.deadline
	}
	if !c.missed.IsZero() && !c.deadline.After(c.missed) {
		time.Sleep(time.Until(c.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(b, c.arrived)
	c.arrived = c.arrived[n:]
	return n, nil
}

// timeoutOfHeldUp is long enough for a busy machine to make a connection over TLS.
const timeoutOfHeldUp = 600 * time.Millisecond

// In a process that waits for a CPU answers are read after the timeout. Redis has answered
// in time, so no decision is local: with one server, with several, and over TLS.
func TestBusyProcess(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	secure := overTLS(t, server.Addr)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &heldUp{Conn: c}, err
	}
	dialTLS := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true}), err
	}
	for name, client := range map[string]goredis.UniversalClient{
		"single":  goredis.NewClient(&goredis.Options{Addr: server.Addr, Dialer: dial}),
		"TLS":     goredis.NewClient(&goredis.Options{Addr: secure, Dialer: dialTLS}),
		"Ring":    goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": server.Addr}, Dialer: dial}),
		"cluster": goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: dial, ReadTimeout: timeoutOfHeldUp}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() { _ = client.Close() })
			store := redis.NewStore(client)
			l := limit.New(store, limit.TokenBucket{Capacity: 40, Refill: 1, Per: 24 * time.Hour},
				limit.Options{Name: name, Timeout: timeoutOfHeldUp})
			for i := range int64(3) {
				if d, err := l.Take(t.Context(), limit.KeyOf("k"), 1); err != nil || d.Remaining != 39-i {
					t.Errorf("%+v %v", d, err)
				}
			}
			if st := l.Stats(); st.FailedOver != 0 {
				t.Errorf("not by Redis: %+v", st)
			}
			if n := store.Stats().LateReads; n < 3 {
				t.Errorf("LateReads is %d", n)
			}
		})
	}
}

// overTLS starts what makes a server reachable over TLS.
func overTLS(t *testing.T, to string) (addr string) {
	web := httptest.NewTLSServer(nil)
	t.Cleanup(web.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", web.TLS)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = l.Close() })
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				running.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				})
			}
		}
	})
	return l.Addr().String()
}
