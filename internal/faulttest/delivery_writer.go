package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/internal/deliverytest"
)

// A writer has servers publish. It repeats a request of which it does not know the outcome with the same ids, at
// any server.
type writer struct {
	name string
	d    *Delivery
	rand *rand.Rand
	ws   *websocket.Conn // nil: none
	addr string          // of the only server that it uses; empty: any
	ids  int
}

func appendID(id string, i int) string { return id + "/" + strconv.Itoa(i) }

// write publishes until ctx ends.
func (w *writer) write(ctx context.Context) {
	defer w.hangUp()
	for ctx.Err() == nil {
		count := 1 + w.rand.IntN(3)
		if w.rand.IntN(50) == 0 {
			count = 100
		}
		w.append(deliveryTopics[w.rand.IntN(len(deliveryTopics))], count, w.rand.IntN(300))
		sleep(ctx, time.Duration(w.rand.IntN(25))*time.Millisecond)
	}
}

// unknownAfter is when a writer gives up. The log keeps ids for two minutes.
const unknownAfter = 90 * time.Second

// append publishes messages, and records what is known of each.
func (w *writer) append(topic string, count, size int) {
	w.ids++
	a := Append{Topic: topic, ID: w.name + "-" + strconv.Itoa(w.ids), Count: count, Size: size}
	begun, began := w.d.Recorder.Now(), time.Now()
	outcome := deliverytest.Acked
	for !w.try(a) {
		w.d.count(&w.d.Repeated, 1)
		if elapsed(began) > unknownAfter {
			outcome = deliverytest.Unknown
			break
		}
		pause(time.Duration(w.rand.IntN(100)) * time.Millisecond)
	}
	if w.rand.IntN(10) == 0 { // as if the answer had been lost
		w.d.count(&w.d.Repeated, 1)
		w.try(a)
	}
	for i := range count {
		w.d.Recorder.Record(deliverytest.Event{Kind: deliverytest.Published, Topic: topic, ID: appendID(a.ID, i), Outcome: outcome, Begun: begun})
	}
}

// appendAt is append at one server.
func (w *writer) appendAt(addr, topic string, count, size int) {
	w.hangUp()
	w.addr = addr
	w.append(topic, count, size)
	w.addr = ""
	w.hangUp()
}

// try sends the request, and reports whether it was acknowledged.
func (w *writer) try(a Append) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if w.ws == nil || w.rand.IntN(100) == 0 {
		w.hangUp()
		addr := w.addr
		if addr == "" {
			addr = w.d.target(w.rand)
		}
		ws, err := dialDelivery(ctx, addr, w.name)
		if err != nil {
			return false
		}
		w.ws = ws
	}
	acked, err := w.request(ctx, a)
	if err != nil || !acked && w.rand.IntN(2) == 0 {
		w.hangUp()
	}
	return acked
}

func (w *writer) request(ctx context.Context, a Append) (acked bool, err error) {
	if !writeRequest(w.ws, "append", a.ID, a) {
		return false, context.Canceled
	}
	_, frame, err := w.ws.Read(ctx)
	if err != nil {
		return false, err
	}
	var m deliveryFrame
	if err := json.Unmarshal(frame, &m); err != nil || m.Meta.CorrelationID != a.ID {
		return false, fmt.Errorf("got %s: %w", frame, err)
	}
	return m.Type != "RPC_ERROR", nil
}

func (w *writer) hangUp() {
	if w.ws != nil {
		_ = w.ws.CloseNow()
		w.ws = nil
	}
}
