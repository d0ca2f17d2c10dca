package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/process"
)

// figures are those of a measurement: seconds of CPU and messages to players in a second, and the share of all messages
// that were replaced by later ones.
type figures struct{ cpu, sent, replaced float64 }

func measure(ctx context.Context, collect bool, duration time.Duration) (f figures, err error) {
	p, err := process.Start(ctx, os.Args[0], "-serve", "-collect="+strconv.FormatBool(collect))
	if err != nil {
		return f, err
	}
	defer p.Stop()
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for i := range players {
		nc, br, err := load.Dial(load.Target{Addr: p.Addr, Path: "/ws"})
		if err != nil {
			return f, err
		}
		context.AfterFunc(ctx, func() { nc.Close() })
		clients.Go(func() { _, _ = io.Copy(io.Discard, br) })
		clients.Go(func() { play(ctx, nc, i) })
	}
	time.Sleep(duration / 4)
	sent, dropped, err := messages(p.Addr)
	if err != nil {
		return f, err
	}
	began := time.Now()
	used, err := p.CPUDuring(func() error { time.Sleep(duration); return nil })
	if err != nil {
		return f, err
	}
	seconds := time.Since(began).Seconds()
	sentBy, droppedBy, err := messages(p.Addr)
	sent, dropped = sentBy-sent, droppedBy-dropped
	return figures{used.Seconds() / seconds, float64(sent) / seconds, float64(dropped) / float64(sent+dropped)}, err
}

// play moves at its times, however slow the server is.
func play(ctx context.Context, to io.Writer, i int) {
	time.Sleep(every * time.Duration(i) / players)
	moves := time.NewTicker(every)
	defer moves.Stop()
	for x := 0; ; x++ {
		text := fmt.Sprintf(`{"type":"move","payload":{"x":%d,"y":%d}}`, x, i)
		frame := append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...) // a mask of zeros
		if _, err := to.Write(frame); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-moves.C:
		}
	}
}

// messages are how many frames the server has sent, and how many it has replaced.
func messages(addr string) (sent, dropped int64, err error) {
	resp, err := http.Get("http://" + addr + "/figures")
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	_, err = fmt.Fscan(resp.Body, &sent, &dropped)
	return sent, dropped, err
}
