package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a network between a client and a server. A test can cut it and slow it down.
type Proxy struct {
	Addr string

	to       string
	listener net.Listener
	mute     atomic.Bool // the bytes of the server are dropped
	refuse   atomic.Bool
	delay    atomic.Int64
	left     atomic.Int64 // bytes until the end of all connections; 0: no end
	mu       sync.Mutex
	open     map[net.Conn]*atomic.Bool // true: the bytes of the server are dropped
	running  sync.WaitGroup
}

// StartProxy starts a proxy in front of a server, until the test ends.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: to, listener: l, open: map[net.Conn]*atomic.Bool{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.refuse.Store(true)
		p.closeAll()
		p.running.Wait()
	})
	return p
}

// Cut closes all connections and refuses new ones, until Mend.
func (p *Proxy) Cut() {
	p.refuse.Store(true)
	p.closeAll()
}

// CutAfter closes all connections once n more bytes were carried, if Mend does not come first. New ones work.
func (p *Proxy) CutAfter(n int64) { p.left.Store(max(n, 1)) }

// Mute drops the bytes that the server sends, until Mend. Those of the client still
// arrive.
func (p *Proxy) Mute() { p.mute.Store(true) }

// Lose is Mute for the connections that are open now: new ones work.
func (p *Proxy) Lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, lossy := range p.open {
		lossy.Store(true)
	}
}

// Delay delays the bytes that the server sends.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Mend ends Cut, CutAfter, Mute and Lose. Connections that have lost bytes are closed.
func (p *Proxy) Mend() {
	p.refuse.Store(false)
	p.left.Store(0)
	p.delay.Store(0)
	p.mute.Store(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, lossy := range p.open {
		if lossy.Load() {
			_ = c.Close()
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil || p.refuse.Load() {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.mu.Lock()
		lossy := &atomic.Bool{}
		p.open[client], p.open[server] = lossy, lossy
		p.mu.Unlock()
		p.running.Go(func() { p.carry(server, client, nil) })
		p.running.Go(func() { p.carry(client, server, lossy) })
	}
}

// carry copies bytes. lossy is set for the direction from the server to the client. A delay
// adds latency and does not reduce the throughput.
func (p *Proxy) carry(to, from net.Conn, lossy *atomic.Bool) {
	type piece struct {
		text []byte
		due  time.Time
	}
	line := make(chan piece, 256)
	var arriving sync.WaitGroup
	arriving.Go(func() {
		broken := false
		for sent := range line {
			time.Sleep(time.Until(sent.due))
			if lossy != nil && p.mute.Load() {
				lossy.Store(true)
			}
			if broken || lossy != nil && lossy.Load() {
				continue
			}
			text, end := p.until(sent.text)
			_, err := to.Write(text)
			if end {
				p.closeAll()
			}
			if end || err != nil {
				_ = from.Close()
				broken = true
			}
		}
	})
	defer func() {
		close(line)
		arriving.Wait()
		_ = to.Close()
		_ = from.Close()
		p.mu.Lock()
		delete(p.open, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			sent := piece{text: bytes.Clone(buf[:n])}
			if lossy != nil {
				sent.due = time.Now().Add(time.Duration(p.delay.Load()))
			}
			line <- sent
		}
		if err != nil {
			return
		}
	}
}

// until returns what of some bytes is carried, and whether all connections end then.
func (p *Proxy) until(text []byte) (carried []byte, end bool) {
	for {
		left := p.left.Load()
		after := max(0, left-int64(len(text)))
		switch {
		case left == 0:
			return text, false
		case p.left.CompareAndSwap(left, after):
			return text[:min(left, int64(len(text)))], after == 0
		}
	}
}

func (p *Proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}
