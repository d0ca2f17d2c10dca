package faulttest

import (
	"context"
	"strings"
	"time"

	"github.com/wskit/wskit/internal/deliverytest"
	"github.com/wskit/wskit/internal/redistest"
)

// A DeliveryNemesis is a kind of fault: it breaks something, and repairs it.
type DeliveryNemesis struct {
	Name string
	On   DeliveryRedis // the kinds of Redis that it is for
	Do   func(d *Delivery)
}

// DeliveryNemeses are all kinds of faults.
var DeliveryNemeses = []DeliveryNemesis{
	{Name: "a server is killed", On: anyRedis, Do: func(d *Delivery) {
		s := d.server()
		d.inspect(s)
		s.Kill()
		d.short()
		s.Run()
	}},
	{Name: "a server shuts down", On: anyRedis, Do: func(d *Delivery) {
		s := d.server()
		d.inspect(s)
		if err := s.Terminate(); err != nil {
			d.t.Errorf("a server does not shut down: %v", err)
		}
		s.Run()
	}},
	{Name: "a server is stopped", On: anyRedis, Do: func(d *Delivery) {
		s := d.server()
		s.Stall()
		pause(300*time.Millisecond + time.Duration(d.rand.IntN(1500))*time.Millisecond)
		s.Resume()
	}},
	{Name: "Redis is killed", On: oneServer, Do: func(d *Delivery) {
		end := d.mayLose(d.redis.kind == Forgetful)
		d.redis.one.Kill()
		d.short()
		d.redis.one.Run()
		end()
	}},
	{Name: "Redis is stopped", On: oneServer, Do: func(d *Delivery) {
		d.redis.one.Stall()
		d.short()
		d.redis.one.Resume()
	}},
	{Name: "subscriptions are closed by Redis", On: anyRedis, Do: func(d *Delivery) { d.redis.do("CLIENT", "KILL", "TYPE", "pubsub") }},
	{Name: "connections are closed by Redis", On: anyRedis, Do: func(d *Delivery) { d.redis.do("CLIENT", "KILL", "TYPE", "normal") }},
	{Name: "the buffers of subscriptions overrun", On: oneServer, Do: (*Delivery).overrun},
	{Name: "the buffers of subscriptions overrun while a server is stopped", On: oneServer, Do: func(d *Delivery) {
		s := d.server()
		s.Stall()
		d.overrun()
		s.Resume()
	}},
	{Name: "a way to Redis is cut at a byte", On: oneServer, Do: func(d *Delivery) {
		p := d.redis.ways[d.rand.IntN(deliveryServers)]
		p.CutAfter(int64(d.rand.IntN(20_000)))
		d.short()
		p.Cut()
		d.short()
		p.Mend()
	}},
	{Name: "a way to Redis loses what it carries", On: oneServer, Do: func(d *Delivery) {
		p := d.redis.ways[d.rand.IntN(deliveryServers)]
		if d.rand.IntN(2) == 0 {
			p.Lose()
		} else {
			p.Mute()
		}
		pause(time.Duration(d.rand.IntN(1500)) * time.Millisecond)
		p.Mend()
	}},
	{Name: "a way to Redis is slow", On: oneServer, Do: func(d *Delivery) {
		p := d.redis.ways[d.rand.IntN(deliveryServers)]
		p.Delay(100 * time.Millisecond)
		pause(300 * time.Millisecond)
		p.Mend()
	}},
	{Name: "a way to clients is cut at a byte", On: anyRedis, Do: func(d *Delivery) {
		d.toServers[d.rand.IntN(deliveryServers)].CutAfter(int64(d.rand.IntN(5000)))
		d.short()
	}},
	{Name: "a way to clients loses what it carries", On: anyRedis, Do: func(d *Delivery) {
		p := d.toServers[d.rand.IntN(deliveryServers)]
		p.Lose()
		d.short()
		p.Mend()
	}},
	{Name: "clients stall", On: anyRedis, Do: func(d *Delivery) {
		d.stalled.Store(true)
		pause(100 * time.Millisecond)
		d.nemesis.append(roomTopic, 100, 4000)
		d.stalled.Store(false)
	}},
	{Name: "more is published than is kept", On: anyRedis, Do: func(d *Delivery) {
		for range 4 {
			d.nemesis.append(shortTopic, 30, 10)
			d.nemesis.append(replayTopic, 30, 10)
		}
	}},
	{Name: "all logs are lost", On: Forgetful, Do: func(d *Delivery) {
		end := d.mayLose(true)
		d.redis.do("FLUSHALL")
		end()
	}},
	{Name: "the end of a log is lost", On: Forgetful, Do: func(d *Delivery) {
		key := deliveryKey(d.topic())
		client := d.redis.client()
		defer client.Close()
		defer d.mayLose(true)()
		old, err := client.Dump(context.Background(), key).Result()
		if err != nil {
			return // there is no log
		}
		d.short()
		if err := client.RestoreReplace(context.Background(), key, time.Hour, old).Err(); err != nil {
			d.t.Error(err)
		}
	}},
	{Name: "Sentinel fails over", On: WithSentinel, Do: func(d *Delivery) { d.promote(func(*redistest.Server) {}) }},
	{Name: "the master is killed and Sentinel fails over", On: WithSentinel, Do: func(d *Delivery) {
		d.promote(func(master *redistest.Server) { master.Kill() })
	}},
	{Name: "a replica without the tail is promoted, and offsets are used again", On: WithSentinel | InCluster, Do: (*Delivery).loseTail},
	{Name: "a slot moves", On: InCluster, Do: func(d *Delivery) {
		topic := d.topic()
		slot := d.redis.slot(topic)
		to := (d.redis.cluster.Owner(slot) + 1 + d.rand.IntN(2)) % len(d.redis.cluster.Nodes)
		d.redis.cluster.Move(slot, to, func() { d.nemesis.append(topic, 3, 100) })
	}},
	{Name: "a replica takes over in a cluster", On: InCluster, Do: func(d *Delivery) { d.takeOver(nil) }},
	{Name: "a node of a cluster is killed and its replica takes over", On: InCluster, Do: func(d *Delivery) {
		d.takeOver(func(master *redistest.Server) { master.Kill() })
	}},
}

// overrun has Redis close subscriptions because more is queued for them than they may have, and counts
// them.
func (d *Delivery) overrun() {
	ids := func() map[string]bool {
		list, _ := d.redis.one.Do("CLIENT", "LIST", "TYPE", "pubsub").(string)
		ids := make(map[string]bool)
		for line := range strings.Lines(list) {
			id, _, _ := strings.Cut(line, " ")
			ids[id] = true
		}
		return ids
	}
	before := ids()
	d.redis.one.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1kb 0 0")
	d.nemesis.append(roomTopic, 3, 40_000)
	d.redis.one.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 256kb 0 0")
	after := ids()
	for id := range before {
		if !after[id] {
			d.Overruns++
		}
	}
}

func (d *Delivery) server() *Server { return d.servers[d.rand.IntN(deliveryServers)] }

func (d *Delivery) topic() string { return deliveryTopics[d.rand.IntN(len(deliveryTopics))] }

func (d *Delivery) short() { pause(time.Duration(50+d.rand.IntN(300)) * time.Millisecond) }

// mayLose notes that Redis may lose from now on what it has acknowledged, until end is called.
func (d *Delivery) mayLose(may bool) (end func()) {
	if !may {
		return func() {}
	}
	since := d.Recorder.Now()
	d.losses.Add(1)
	return func() {
		d.Recorder.Record(deliverytest.Event{Kind: deliverytest.MayLose, Begun: since})
		d.losses.Add(1)
	}
}
