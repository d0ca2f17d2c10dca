package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a network between a client and a server that a test can cut and slow
// down.
type Proxy struct {
	Addr string

	to       string
	listener net.Listener
	mute     atomic.Bool // what the server says is lost
	refuse   atomic.Bool
	delay    atomic.Int64
	mu       sync.Mutex
	open     map[net.Conn]bool
	running  sync.WaitGroup
}

// StartProxy starts one in front of a server, until the test ends.
func StartProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: to, listener: l, open: map[net.Conn]bool{}}
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

// Mute loses what the server says, while what it is told still arrives, until
// Mend.
func (p *Proxy) Mute() { p.mute.Store(true) }

// Delay holds up everything the server says.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Mend makes the network whole again. Connections that lost something are closed.
func (p *Proxy) Mend() {
	p.refuse.Store(false)
	p.delay.Store(0)
	if p.mute.Swap(false) {
		p.closeAll()
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
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		p.running.Go(func() { p.carry(server, client, false) })
		p.running.Go(func() { p.carry(client, server, true) })
	}
}

func (p *Proxy) carry(to, from net.Conn, answers bool) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
		p.mu.Lock()
		delete(p.open, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if answers {
			time.Sleep(time.Duration(p.delay.Load()))
			if p.mute.Load() {
				n = 0
			}
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
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
