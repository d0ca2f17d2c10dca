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
	delay    atomic.Int64
	left     atomic.Int64 // bytes until the end of all connections; 0: no end
	running  sync.WaitGroup

	mu     sync.Mutex
	mute   bool // the bytes of the server are dropped
	refuse bool
	open   map[net.Conn]*proxied
}

// proxied is a connection of a client. Proxy.mu guards it.
type proxied struct{ lossy bool } // the bytes of the server are dropped

// StartProxy starts a proxy in front of a server, until the test ends.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: to, listener: l, open: map[net.Conn]*proxied{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Cut closes all connections and refuses new ones, until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.closeAll()
}

// CutAfter closes all connections once n more bytes were carried, if Mend does not come first. New ones work.
func (p *Proxy) CutAfter(n int64) { p.left.Store(max(n, 1)) }

// Mute drops the bytes that the server sends, until Mend. Those of the client still
// arrive.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// Lose is Mute for the connections that are open now: new ones work.
func (p *Proxy) Lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.lossy = true
	}
}

// Delay delays the bytes that the server sends.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Mend ends Cut, CutAfter, Mute and Lose. Connections that have lost bytes are closed.
func (p *Proxy) Mend() {
	p.left.Store(0)
	p.delay.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse, p.mute = false, false
	for end, c := range p.open {
		if c.lossy {
			_ = end.Close()
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
		if err != nil {
			_ = client.Close()
			continue
		}
		c := p.opens(client, server)
		if c == nil {
			_ = client.Close()
			_ = server.Close()
			continue
		}
		p.running.Go(func() { p.carry(server, client, nil) })
		p.running.Go(func() { p.carry(client, server, c) })
	}
}

// opens notes a connection, which Cut closes from now on. It returns nil if there are to be none.
func (p *Proxy) opens(client, server net.Conn) *proxied {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return nil
	}
	c := &proxied{}
	p.open[client], p.open[server] = c, c
	return c
}

// drops reports whether the bytes of the server are dropped. If so, those that follow are too, and
// Mend closes the connection.
func (p *Proxy) drops(c *proxied) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.lossy = c.lossy || p.mute
	return c.lossy
}

// carry copies bytes. fromServer is set for the direction from the server to the client. A delay
// adds latency and does not reduce the throughput.
func (p *Proxy) carry(to, from net.Conn, fromServer *proxied) {
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
			if broken || fromServer != nil && p.drops(fromServer) {
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
			if fromServer != nil {
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
