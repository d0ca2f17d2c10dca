package clienttest

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"time"
)

// proxy is between clients and the server. It parses frames, so that faults can be made within one.
type proxy struct {
	listener net.Listener
	record   *record
	running  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond // when a fault, or a connection, has ended
	to      string     // the address of the server; empty: all are refused
	refused int        // so many connections are refused; negative: all
	open    map[*link]bool
	held    int // frames that wait for the end of a stall
	faults
}

// link is a connection of a client, with its connection to the server or with a script.
type link struct {
	client net.Conn
	server net.Conn      // nil for a script, and before it is carried
	gone   chan struct{} // closed when it has ended

	// Guarded by proxy.mu. Like server, conn does not change while the connection is carried.
	conn     int  // its number in the record; 0 before it has one
	silent   bool // nothing is carried any more
	ended    bool
	upgraded bool // the answer to its handshake has been written, or is being written

	writing map[string]*sync.Mutex // by direction; held while a frame is written
}

func startProxy(r *record) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, record: r, open: map[*link]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	return p, nil
}

// use sends new connections to a server; empty: to none.
func (p *proxy) use(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = addr
}

// refuse resets so many new connections; negative: all until Resume.
func (p *proxy) refuse(times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = times
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.use("")
	p.cutAll("reset")
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		l := &link{client: client, gone: make(chan struct{}), writing: map[string]*sync.Mutex{up: {}, down: {}}}
		p.mu.Lock()
		refuse := p.refused != 0
		if p.refused > 0 {
			p.refused--
		}
		script := p.nextScript()
		refuse = refuse || script == nil && p.to == ""
		if !refuse {
			p.open[l] = true
		}
		if refuse || script != nil {
			l.conn = p.record.attempt()
		}
		p.mu.Unlock()
		switch {
		case refuse:
			p.record.amend(l.conn, func(a *Attempt) { a.Outcome, a.EndedMs = "refused", a.AtMs })
			reset(client)
		case script != nil:
			p.record.amend(l.conn, func(a *Attempt) { a.Outcome = "script" })
			p.running.Go(func() {
				defer p.end(l, "fin")
				p.play(l, script)
			})
		default:
			p.running.Go(func() { p.connect(l) })
		}
	}
}

// reset closes a connection as a process that is killed does.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// connect carries a connection in both directions until its end. It begins with the first byte of a handshake: a
// client keeps the TCP connection of an attempt that it has given up, and may use it for a later one.
func (p *proxy) connect(l *link) {
	defer p.end(l, "fin")
	client := bufio.NewReaderSize(l.client, 64<<10)
	if _, err := client.Peek(1); err != nil {
		return
	}
	p.mu.Lock()
	l.conn = p.record.attempt()
	to := p.to
	p.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		p.record.amend(l.conn, func(a *Attempt) { a.Outcome = "refused" })
		reset(l.client)
		return
	}
	p.mu.Lock()
	l.server = server
	if l.ended {
		_ = server.Close()
	}
	p.mu.Unlock()
	var carrying sync.WaitGroup
	carrying.Go(func() { p.carry(l, up, client) })
	carrying.Go(func() { p.carry(l, down, bufio.NewReaderSize(server, 64<<10)) })
	carrying.Wait()
}

// forwardHandshake forwards the request or the answer. When the client has the answer, Inject finds the connection.
func (p *proxy) forwardHandshake(l *link, dir string, head []byte) {
	if len(head) == 0 {
		return
	}
	l.writing[dir].Lock()
	defer l.writing[dir].Unlock()
	if dir == down {
		p.mu.Lock()
		l.upgraded = true
		p.mu.Unlock()
	}
	p.write(l, dir, &frame{raw: head}, handshakeType)
}

// carry carries the handshake and the frames of one direction.
func (p *proxy) carry(l *link, dir string, from *bufio.Reader) {
	defer p.finished(l, dir)
	head, err := readHead(from)
	if dir == up {
		p.record.amend(l.conn, func(a *Attempt) { a.Path, a.Token = requested(head) })
	} else if err == nil {
		p.record.amend(l.conn, func(a *Attempt) { a.Outcome, a.ID = answered(head) })
	}
	if err == nil && dir == down && !bytes.HasPrefix(head, []byte("HTTP/1.1 101")) {
		p.forward(l, dir, &frame{raw: head}, handshakeType)
		p.carryBody(l, from)
		return
	}
	p.forwardHandshake(l, dir, head)
	for err == nil {
		var f frame
		f, err = readFrame(from)
		if err != nil { // what is there of it
			p.forward(l, dir, &frame{raw: f.raw}, "")
			return
		}
		p.forward(l, dir, &f, f.envelope().Type)
	}
}

// carryBody carries the body of a refusal.
func (p *proxy) carryBody(l *link, from *bufio.Reader) {
	for chunk := make([]byte, 4096); ; {
		n, err := from.Read(chunk)
		p.forward(l, down, &frame{raw: chunk[:n]}, "")
		if err != nil {
			return
		}
	}
}

// finished passes on that one side sends no more. The other one has a second to end as well.
func (p *proxy) finished(l *link, dir string) {
	p.mu.Lock()
	silent := l.silent
	p.mu.Unlock()
	if dir == down && silent {
		return // the client does not get it
	}
	to := l.client
	if dir == up {
		to = l.server
	}
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	p.running.Go(func() {
		pause(time.Second, l.gone)
		p.end(l, "fin")
	})
}

// end ends a connection, once: with "reset" or "fin". With "silent" it stays open, and nothing is carried any more.
func (p *proxy) end(l *link, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Broadcast()
	switch {
	case l.ended:
		return
	case how == "silent":
		l.silent = true
		return
	case how == "reset":
		reset(l.client)
	default:
		_ = l.client.Close()
	}
	l.ended = true
	close(l.gone)
	delete(p.open, l)
	if l.server != nil {
		_ = l.server.Close()
	}
	p.record.amend(l.conn, func(a *Attempt) { a.EndedMs = p.record.now() })
}

// maxHead bounds the head of a handshake.
const maxHead = 64 << 10

// readHead reads the head of a request or an answer.
func readHead(r *bufio.Reader) (head []byte, err error) {
	for len(head) < maxHead && !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		line, err := r.ReadBytes('\n')
		head = append(head, line...)
		if err != nil {
			return head, err
		}
	}
	return head, nil
}

// requested returns the path and the token of a request.
func requested(head []byte) (path, token string) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		return "", ""
	}
	for _, offers := range r.Header.Values("Sec-WebSocket-Protocol") {
		for offer := range strings.SplitSeq(offers, ",") {
			if found, ok := strings.CutPrefix(strings.TrimSpace(offer), "bearer."); ok {
				token = found
			}
		}
	}
	if found, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = found
	}
	if token == "" {
		token = r.URL.Query().Get("access_token")
	}
	return r.URL.RequestURI(), token
}

// answered returns the status of an answer and the id of the connection.
func answered(head []byte) (status, id string) {
	lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(head)))
	first, err := lines.ReadLine()
	if err != nil {
		return "", ""
	}
	if fields := strings.Fields(first); len(fields) > 1 {
		status = fields[1]
	}
	header, err := lines.ReadMIMEHeader()
	if err != nil {
		return status, ""
	}
	return status, header.Get("X-Client-Id")
}
