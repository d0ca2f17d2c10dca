package client_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/wskit/wskit/client"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/clienttest"
)

func unknownTypesScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	for _, frame := range []string{
		`{"type":"unheard.of","payload":{"a":1}}`, `{"type":"$ws:unheard-of","payload":[]}`, `{"type":"__proto__"}`,
		`{"type":"said","meta":{"new":{"a":[1]},"ts":"x"},"payload":{"n":7}}`,
		`{"type":"echo.reply","meta":{"correlationId":"no request"},"payload":{}}`,
		`{"type":"RPC_ERROR","meta":{"correlationId":"no request"},"payload":{"code":"INTERNAL"}}`,
		`{"type":"$ws:rpc-progress","meta":{"correlationId":"no request"},"payload":1}`,
		`{"type":"$ws:abort","meta":{"correlationId":"$ws:77"}}`, `{"type":"$ws:presence","payload":{"topic":"t","count":1}}`,
	} {
		ok(t, s.Inject(clienttest.InjectOptions{Frame: frame}))
	}
	a.request("echo", payload{})
	a.expect(t, "said 7")
	if l := s.Log(); len(l.Attempts) != 1 || len(a.failures()) > 0 {
		t.Errorf("%d attempts, reported %v", len(l.Attempts), a.failures())
	}
}

func malformedScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	a := act(t, s, "ann", client.Options{})
	frames := []string{
		`x`, `{"type":"said","payload":{"n":`, `null`, `7`, `[]`, `{}`, `{"payload":1}`, `{"type":7}`, `{"type":"said","payload":{"n":"seven"}}`,
		`{"type":"said","meta":7}`, `{"type":"said","meta":{"correlationId":{}}}`, `{"type":"ERROR","payload":7}`, `{"type":"$ws:subscribed","payload":7}`,
		`{"type":"$ws:expiring","payload":"soon"}`, `{"type":"a","type":"b"}`,
	}
	for _, frame := range frames {
		ok(t, s.Inject(clienttest.InjectOptions{Frame: frame}))
	}
	ok(t, s.Inject(clienttest.InjectOptions{Frame: `{"type":"said","payload":{"n":8}}`, Binary: true}))
	ok(t, s.Inject(clienttest.InjectOptions{Frame: `{"type":"$ws:subscribed","payload":{"topic":"__proto__","pos":"p","ticket":"t"}}`}))
	a.request("echo", payload{})
	a.expect(t, "said 8")
	eventually(t, "the errors to be reported", func() bool { return len(a.failures()) == len(frames) })
	if n := len(s.Log().Attempts); n != 1 {
		t.Errorf("%d attempts", n)
	}
	a.close()

	for what, raw := range map[string]string{
		"reserved bits": "\xf1\x02{}", "a masked frame": "\x81\x82\x00\x00\x00\x00{}", "an unknown opcode": "\x83\x02{}",
		"a continuation of nothing": "\x80\x02{}", "a long ping": "\x89\x7e\x00\x80" + string(make([]byte, 128)), "text that is not UTF-8": "\x81\x0d{\"type\":\"a\xff\"}",
	} {
		ok(t, s.Raw(clienttest.RawOptions{Steps: []clienttest.Step{{Accept: true}, {Bytes: base64.StdEncoding.EncodeToString([]byte(raw))}, {SleepMs: 60_000}}}))
		a := act(t, s, "ann", client.Options{})
		if what == "a masked frame" { // the library reads it: its bytes are what they say
			a.close()
			continue
		}
		a.awaitConnections(2)
		a.request("echo", payload{Text: what})
		a.close()
	}
}

func failingHandlersScenario(t *testing.T) {
	s := clienttest.Start(t, clienttest.Options{})
	var second, third atomic.Int32
	a := act(t, s, "ann", client.Options{Setup: func(c *client.Client) {
		client.On(c, "said", func(_ context.Context, p payload, _ client.Meta) {
			if p.N%10 == 0 {
				panic(fmt.Sprint("event ", p.N))
			}
		})
		var stop func()
		stop = client.On(c, "said", func(context.Context, payload, client.Meta) {
			stop()
			client.On(c, "said", func(context.Context, payload, client.Meta) { third.Add(1) })
		})
		client.On(c, "said", func(context.Context, payload, client.Meta) { second.Add(1) })
	}})
	a.join(history)
	publish(t, s, 30)
	a.expect(t, said(1, 30)...)
	eventually(t, "all handlers to be called", func() bool { return second.Load() == 30 && third.Load() == 29 })
	if n := len(a.failures()); n != 3 {
		t.Errorf("reported %v", a.failures())
	}
}

func hostileServerScenario(t *testing.T) {
	takesTime(t)
	s := clienttest.Start(t, clienttest.Options{})
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	ok(t, s.Raw(clienttest.RawOptions{Steps: []clienttest.Step{
		{Send: `{"type":"unknown {{i}}","payload":"x"}`, Repeat: 10_000},
		{Send: `{"type":"$ws:subscribed","payload":{"topic":"topic {{i}}","pos":"p","ticket":"{{pad}}"}}`, Repeat: 30, Pad: 1 << 20},
		{Send: `{"type":"$ws:subscribed","payload":{"topic":"topic {{i}}","pos":"p","ticket":"t"}}`, Repeat: 2000},
		{Send: `{"type":"confirm","meta":{"correlationId":"$ws:{{i}}"}}`, Repeat: 1000},
		{Send: `{"type":"$ws:rpc-progress","meta":{"correlationId":"none {{i}}"},"payload":1}`, Repeat: 1000},
		{Send: `{"type":"echo.reply","meta":{"correlationId":"none {{i}}"},"payload":1}`, Repeat: 1000},
		{Send: `{"type":"$ws:expiring","payload":{"inMs":60000}}`, Repeat: 1000},
		{Send: `{"type":"{{pad}}"}`, Repeat: 5, Pad: 1 << 20},
		{Expect: "echo"}, {Send: `{"type":"echo.reply","meta":{"correlationId":"{{id}}"},"payload":{}}`},
		{End: "reset"},
	}}))
	before, goroutines := memory(), runtime.NumGoroutine()
	var reported atomic.Int32
	o := options(t, s, "ann", client.Options{OnError: func(string, error) { reported.Add(1) }, OnGap: func(client.Gap) {}})
	c, err := client.Dial(within(t), s.URL, o)
	ok(t, err)
	a := &actor{Client: c, inbox: new(inbox), t: t}
	t.Cleanup(a.close)
	_, err = client.Request[payload](within(t), c, "echo", payload{})
	if err != nil && !errors.Is(err, client.ErrUnknownOutcome) { // the connection may be ended for what the server does
		t.Error(err)
	}
	// The record of the server has most of it.
	if grown := int64(memory()) - int64(before); grown > 200<<20 || runtime.NumGoroutine() > goroutines+500 {
		t.Errorf("%d bytes more, %d goroutines more", grown, runtime.NumGoroutine()-goroutines)
	}
	a.awaitConnections(2)
	a.request("echo", payload{})
	if reported.Load() < 30 {
		t.Errorf("%d errors were reported", reported.Load())
	}
}
