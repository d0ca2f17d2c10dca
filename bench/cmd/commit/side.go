package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
)

// side is one of the servers, with a client.
type side struct {
	name    string
	pool    *pgxpool.Pool
	publish string // the statement, with the topic and the payload
	request func(topic, payload string) (*http.Request, error)

	numbers atomic.Int64
	arrived atomic.Int64
	begun   sync.Map // by the number of the event: when its COMMIT began, or was due
	mu      sync.Mutex
	took    []time.Duration // of the events that have arrived; nil while nothing is measured
}

// start starts both servers on a database. The caller calls stop, also after an error.
func start(ctx context.Context, folder, url string) (sides []*side, stop func(), err error) {
	var started []*process.Process
	stop = func() {
		for _, p := range started {
			p.Stop()
		}
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, stop, err
	}
	config.MaxConns = callers + 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, stop, err
	}
	if _, err := pool.Exec(ctx, "create table paid (id int8)"); err != nil {
		return nil, stop, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, stop, err
	}
	if err := os.Setenv(dsn, url); err != nil {
		return nil, stop, err
	}
	own, err := process.Start(ctx, self, "-serve")
	if err != nil {
		return nil, stop, err
	}
	started = append(started, own)
	rival, err := process.StartCentrifugo(ctx, folder, map[string]any{
		"broker": map[string]any{
			"enabled":  true,
			"type":     "postgres",
			"postgres": map[string]any{"dsn": url, "use_notify": true},
		},
		"client": map[string]any{"insecure": true}, "http_api": map[string]any{"insecure": true},
		"channel": map[string]any{"namespaces": []any{
			map[string]any{
				"name":                       "orders",
				"history_size":               1000,
				"history_ttl":                "1h",
				"allow_subscribe_for_client": true,
			},
		}},
	})
	if err != nil {
		return nil, stop, err
	}
	started = append(started, rival)
	wskit := &side{name: "wskit", pool: pool, publish: "select wskit.publish($1, 'order.paid', $2::jsonb)"}
	theirs := &side{name: "Centrifugo", pool: pool, publish: "select cf_stream_publish($1, $2::jsonb, " +
		"p_history_ttl => '1 hour', p_history_size => 1000)"}
	wskit.request = func(topic, payload string) (*http.Request, error) {
		return http.NewRequest(http.MethodPost, "http://"+own.Addr+"/publish?topic="+topic, strings.NewReader(payload))
	}
	theirs.request = func(topic, payload string) (*http.Request, error) {
		return http.NewRequest(
			http.MethodPost,
			"http://"+rival.Addr+"/api/publish",
			strings.NewReader(`{"channel":"`+topic+`","data":`+payload+`}`),
		)
	}
	var join, joinTheirs [][]byte
	joinTheirs = append(joinTheirs, []byte(`{"id":1,"connect":{}}`))
	for n := range topics {
		join = append(
			join, fmt.Appendf(nil, `{"type":"join","meta":{"correlationId":"%[2]d"},"payload":%[1]q}`, topic(n), n+1),
		)
		joinTheirs = append(joinTheirs, fmt.Appendf(nil, `{"id":%d,"subscribe":{"channel":%q}}`, n+2, topic(n)))
	}
	if err := wskit.dial(ctx, "ws://"+own.Addr+"/", join, `"correlationId"`); err != nil {
		return nil, stop, err
	}
	return []*side{
			wskit,
			theirs,
		}, stop, theirs.dial(
			ctx,
			"ws://"+rival.Addr+"/connection/websocket",
			joinTheirs,
			`"id"`,
		)
}

// dial makes the client, sends it into all topics, and reads from then on.
func (s *side) dial(ctx context.Context, url string, join [][]byte, answer string) error {
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	c.SetReadLimit(1 << 24)
	for _, frame := range join {
		if err := c.Write(ctx, websocket.MessageText, frame); err != nil {
			return err
		}
		for {
			_, text, err := c.Read(ctx)
			if err != nil {
				return err
			}
			if bytes.Contains(text, []byte(`"error"`)) || bytes.Contains(text, []byte(`"ERROR"`)) {
				return fmt.Errorf("%s: %s is answered with %s", s.name, frame, text)
			}
			if bytes.Contains(text, []byte(answer)) {
				break
			}
		}
	}
	go func() {
		for {
			_, text, err := c.Read(ctx)
			if err != nil {
				return
			}
			now := time.Now()
			for line := range bytes.Lines(text) {
				if string(bytes.TrimSpace(line)) == "{}" { // a ping of Centrifugo
					_ = c.Write(ctx, websocket.MessageText, []byte("{}"))
				}
			}
			s.taken(text, now)
		}
	}()
	return nil
}

var number = []byte(`"number":`)

// taken notes the events of a frame.
func (s *side) taken(text []byte, now time.Time) {
	for {
		_, rest, ok := bytes.Cut(text, number)
		if !ok {
			return
		}
		text = bytes.TrimLeft(rest, " ")
		var n int64
		for i := 0; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
			n = n*10 + int64(text[i]-'0')
		}
		begun, ok := s.begun.LoadAndDelete(n)
		if !ok {
			continue
		}
		s.arrived.Add(1)
		s.mu.Lock()
		s.took = append(s.took, now.Sub(begun.(time.Time)))
		s.mu.Unlock()
	}
}

// event is the payload of the next event.
func (s *side) event() (n int64, payload string) {
	n = s.numbers.Add(1)
	text, _ := json.Marshal(map[string]any{"number": n, "buyer": "ann", "amount": 1999, "currency": "EUR"})
	return n, string(text)
}

// transact publishes an event in a transaction. The latency counts from due, or from the beginning of COMMIT.
func (s *side) transact(ctx context.Context, topic string, due time.Time) error {
	n, payload := s.event()
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into paid values ($1)", n); err != nil {
			return err
		}
		if !due.IsZero() {
			s.begun.Store(n, due)
		}
		if _, err := tx.Exec(ctx, s.publish, topic, payload); err != nil {
			return err
		}
		if due.IsZero() {
			s.begun.Store(n, time.Now())
		}
		return nil
	})
}

// post publishes an event over HTTP.
func (s *side) post(ctx context.Context, i int) error {
	n, payload := s.event()
	s.begun.Store(n, time.Now())
	req, err := s.request(topic(i%topics), payload)
	if err != nil {
		return err
	}
	res, err := web.Do(req.WithContext(ctx))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || bytes.Contains(body, []byte(`"error"`))) {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return err
}

var web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}

// call publishes an event by the function.
func (s *side) call(ctx context.Context, i int) error {
	n, payload := s.event()
	s.begun.Store(n, time.Now())
	_, err := s.pool.Exec(ctx, s.publish, topic(i%topics), payload)
	return err
}

func (s *side) transactNow(ctx context.Context, i int) error {
	return s.transact(ctx, topic(i%topics), time.Time{})
}

// rate publishes as fast as the callers can, and returns how many events a second have arrived.
func (s *side) rate(
	ctx context.Context, lasts time.Duration, do func(ctx context.Context, i int) error,
) (float64, error) {
	s.mu.Lock()
	s.took = nil
	s.mu.Unlock()
	before, begun := s.arrived.Load(), time.Now()
	var sent atomic.Int64
	errs := make([]error, callers)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; time.Since(begun) < lasts && errs[caller] == nil; i += callers {
				errs[caller] = do(ctx, i)
				sent.Add(1)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	s.wait(ctx, before+sent.Load())
	return float64(s.arrived.Load()-before) / time.Since(begun).Seconds(), ctx.Err()
}

// wait waits until so many events have arrived, or none has for a while.
func (s *side) wait(ctx context.Context, events int64) {
	for last, end := s.arrived.Load(), time.Now().Add(silence); s.arrived.Load() < events && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
		if n := s.arrived.Load(); n != last {
			last, end = n, time.Now().Add(silence)
		}
	}
}

const silence = 10 * time.Second // after which nothing more comes

// latency is in milliseconds.
type latency struct {
	p50, p99, max   float64
	events, missing int
	late            int // more than a second
}

// paced publishes at a steady rate.
func (s *side) paced(ctx context.Context, lasts time.Duration) (latency, error) {
	return s.at(ctx, lasts, func(i int, _ time.Time) error { return s.transactNow(ctx, i) })
}

// besideOpen does the same while a transaction that has published to a topic of its own stays open. What is late
// because a call waits counts from when it was due.
func (s *side) besideOpen(ctx context.Context, lasts time.Duration) (l latency, err error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return l, err
	}
	if _, err := tx.Exec(ctx, s.publish, "orders:report", `{"report":1}`); err != nil {
		return l, err
	}
	ended := time.AfterFunc(lasts, func() { _ = tx.Commit(ctx) })
	defer ended.Stop()
	return s.at(ctx, lasts, func(i int, due time.Time) error { return s.transact(ctx, topic(i%topics), due) })
}

func (s *side) at(
	ctx context.Context, lasts time.Duration, do func(i int, due time.Time) error,
) (l latency, err error) {
	s.mu.Lock()
	s.took = nil
	s.mu.Unlock()
	before, begun := s.arrived.Load(), time.Now()
	events := int(lasts.Seconds() * paced)
	errs := make(chan error, events)
	for i := range events {
		due := begun.Add(time.Duration(i) * time.Second / paced)
		time.Sleep(time.Until(due))
		go func() { errs <- do(i, due) }()
	}
	for range events {
		if err := <-errs; err != nil {
			return l, err
		}
	}
	s.wait(ctx, before+int64(events))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		return l, fmt.Errorf("none of %d events has arrived", events)
	}
	slices.Sort(s.took)
	for _, d := range s.took {
		if d > time.Second {
			l.late++
		}
	}
	l.events, l.missing = events, events-len(s.took)
	l.p50, l.p99 = stats.Millis(stats.Quantile(s.took, 0.5)), stats.Millis(stats.Quantile(s.took, 0.99))
	l.max = stats.Millis(stats.Quantile(s.took, 1))
	return l, ctx.Err()
}
