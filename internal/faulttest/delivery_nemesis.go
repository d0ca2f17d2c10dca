package faulttest

import (
	"context"
	"strings"
	"time"

	"github.com/wskit/wskit/internal/deliverytest"
)

// A DeliveryNemesis is a kind of fault: it breaks something, and repairs it.
type DeliveryNemesis struct {
	Name string
	// Loses says that messages are lost that were acknowledged: it is for a Redis that is not durable.
	Loses bool
	Do    func(d *Delivery)
}

// DeliveryNemeses are all kinds of faults.
var DeliveryNemeses = []DeliveryNemesis{
	{Name: "a server is killed", Do: func(d *Delivery) {
		s := d.server()
		d.inspect(s)
		s.Kill()
		d.short()
		s.Run()
	}},
	{Name: "a server shuts down", Do: func(d *Delivery) {
		s := d.server()
		d.inspect(s)
		if err := s.Terminate(); err != nil {
			d.t.Errorf("a server does not shut down: %v", err)
		}
		s.Run()
	}},
	{Name: "a server is stopped", Do: func(d *Delivery) {
		s := d.server()
		s.Stall()
		pause(300*time.Millisecond + time.Duration(d.rand.IntN(1500))*time.Millisecond)
		s.Resume()
	}},
	{Name: "Redis is killed", Do: func(d *Delivery) {
		since := d.Recorder.Now()
		d.redis.Kill()
		d.short()
		d.redis.Run()
		if !d.durable {
			d.mayLose(since)
		}
	}},
	{Name: "Redis is stopped", Do: func(d *Delivery) {
		d.redis.Stall()
		d.short()
		d.redis.Resume()
	}},
	{Name: "subscriptions are closed by Redis", Do: func(d *Delivery) { d.redis.Do("CLIENT", "KILL", "TYPE", "pubsub") }},
	{Name: "connections are closed by Redis", Do: func(d *Delivery) { d.redis.Do("CLIENT", "KILL", "TYPE", "normal") }},
	{Name: "the buffers of subscriptions overrun", Do: (*Delivery).overrun},
	{Name: "the buffers of subscriptions overrun while a server is stopped", Do: func(d *Delivery) {
		s := d.server()
		s.Stall()
		d.overrun()
		s.Resume()
	}},
	{Name: "a way to Redis is cut at a byte", Do: func(d *Delivery) {
		p := d.toRedis[d.rand.IntN(deliveryServers)]
		p.CutAfter(int64(d.rand.IntN(20_000)))
		d.short()
		p.Cut()
		d.short()
		p.Mend()
	}},
	{Name: "a way to Redis loses what it carries", Do: func(d *Delivery) {
		p := d.toRedis[d.rand.IntN(deliveryServers)]
		if d.rand.IntN(2) == 0 {
			p.Lose()
		} else {
			p.Mute()
		}
		pause(time.Duration(d.rand.IntN(1500)) * time.Millisecond)
		p.Mend()
	}},
	{Name: "a way to Redis is slow", Do: func(d *Delivery) {
		p := d.toRedis[d.rand.IntN(deliveryServers)]
		p.Delay(100 * time.Millisecond)
		pause(300 * time.Millisecond)
		p.Mend()
	}},
	{Name: "a way to clients is cut at a byte", Do: func(d *Delivery) {
		d.toServers[d.rand.IntN(deliveryServers)].CutAfter(int64(d.rand.IntN(5000)))
		d.short()
	}},
	{Name: "a way to clients loses what it carries", Do: func(d *Delivery) {
		p := d.toServers[d.rand.IntN(deliveryServers)]
		p.Lose()
		d.short()
		p.Mend()
	}},
	{Name: "clients stall", Do: func(d *Delivery) {
		d.stalled.Store(true)
		pause(100 * time.Millisecond)
		d.nemesis.append(roomTopic, 100, 4000)
		d.stalled.Store(false)
	}},
	{Name: "more is published than is kept", Do: func(d *Delivery) {
		for range 4 {
			d.nemesis.append(shortTopic, 30, 10)
			d.nemesis.append(replayTopic, 30, 10)
		}
	}},
	{Name: "all logs are lost", Loses: true, Do: func(d *Delivery) {
		since := d.Recorder.Now()
		d.redis.Do("FLUSHALL")
		d.mayLose(since)
	}},
	{Name: "the end of a log is lost", Loses: true, Do: func(d *Delivery) {
		key := "wskit:log:{" + deliveryTopics[d.rand.IntN(len(deliveryTopics))] + "}"
		client := d.redis.Client()
		defer client.Close()
		since := d.Recorder.Now()
		old, err := client.Dump(context.Background(), key).Result()
		if err != nil {
			return // there is no log
		}
		d.short()
		if err := client.RestoreReplace(context.Background(), key, time.Hour, old).Err(); err != nil {
			d.t.Error(err)
		}
		d.mayLose(since)
	}},
}

// overrun has Redis close subscriptions because more is queued for them than they may have, and counts
// them.
func (d *Delivery) overrun() {
	ids := func() map[string]bool {
		list, _ := d.redis.Do("CLIENT", "LIST", "TYPE", "pubsub").(string)
		ids := make(map[string]bool)
		for line := range strings.Lines(list) {
			id, _, _ := strings.Cut(line, " ")
			ids[id] = true
		}
		return ids
	}
	before := ids()
	d.redis.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1kb 0 0")
	d.nemesis.append(roomTopic, 3, 40_000)
	d.redis.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 256kb 0 0")
	after := ids()
	for id := range before {
		if !after[id] {
			d.Overruns++
		}
	}
}

func (d *Delivery) server() *Server { return d.servers[d.rand.IntN(deliveryServers)] }

func (d *Delivery) short() { pause(time.Duration(50+d.rand.IntN(300)) * time.Millisecond) }

func (d *Delivery) mayLose(since int64) {
	d.Recorder.Record(deliverytest.Event{Kind: deliverytest.MayLose, Begun: since})
}
