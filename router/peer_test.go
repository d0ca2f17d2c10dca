package router_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/internal/leaktest"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/router"
)

// patience is how long a test waits before it calls something hung.
const patience = poll.Guard

// socketServer serves a router on a real loopback socket.
type socketServer struct {
	t    *testing.T
	r    *router.Router
	hs   *http.Server
	addr string
	tls  *tls.Config // of its clients; nil: none

	pipes     *pipeListener // nil: it listens to TCP
	deadlines atomic.Int64  // how often a write deadline was set
	limited   atomic.Bool   // whether the last one is one

	mu    sync.Mutex
	peers []*peer
}

type said struct {
	Text string `json:"text"`
}

// A transport serves a router: serveSocket or serveTLS.
type transport func(*testing.T, router.Options, func(*router.Router)) *socketServer

// serveSocket serves a router with the request "echo", which answers with its
// payload, and what register adds. At the end of the test nothing of it may be
// left.
func serveSocket(t *testing.T, opts router.Options, register func(*router.Router)) *socketServer {
	t.Helper()
	return serveListener(t, quietly(opts), register, loopback(t), nil)
}

// quietly leaves out pings, which would come between what is expected, and leaves a client that reads or writes late
// the time that a slow machine needs, unless the test has its own times.
func quietly(opts router.Options) router.Options {
	if opts.Liveness == (router.Liveness{}) {
		opts.Liveness = router.Liveness{PingInterval: -1, MessageTimeout: poll.Guard, WriteTimeout: poll.Guard}
	}
	return opts
}

// serveTLS is serveSocket over TLS.
func serveTLS(t *testing.T, opts router.Options, register func(*router.Router)) *socketServer {
	t.Helper()
	server, client := certificate(t)
	s := serveListener(t, quietly(opts), register, loopback(t), server)
	s.tls = client
	return s
}

// overPipes runs a test of times in a bubble, in which a second takes none: its sockets are pipes, without TLS and
// under it. What is written to a pipe waits for the other end to read.
func overPipes(t *testing.T, test func(*testing.T, transport)) {
	t.Helper()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS: %t", secure), func(t *testing.T) { overPipe(t, secure, test) })
	}
}

// overPipe is overPipes either without TLS or under it.
func overPipe(t *testing.T, secure bool, test func(*testing.T, transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, func(t *testing.T, opts router.Options, register func(*router.Router)) *socketServer {
			var server, client *tls.Config
			if secure {
				server, client = certificate(t)
			}
			pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			s := serveListener(t, opts, register, pipes, server)
			s.tls, s.pipes = client, pipes
			return s
		})
	})
}

// pipeListener accepts pipes.
type pipeListener struct {
	conns   chan net.Conn
	closed  chan struct{}
	closing sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return l }
func (*pipeListener) Network() string  { return "pipe" }
func (l *pipeListener) String() string { return fmt.Sprintf("%p", l) }

func loopback(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func serveListener(t *testing.T, opts router.Options, register func(*router.Router), ln net.Listener, secret *tls.Config) *socketServer {
	t.Helper()
	addr := ln.Addr().String()
	leaktest.Mark(addr)
	r := router.New(opts)
	router.RPC(r, "echo", func(_ *router.Context, m said) (said, error) { return m, nil })
	if register != nil {
		register(r)
	}
	hs := &http.Server{Handler: r, ReadHeaderTimeout: patience, ErrorLog: log.New(io.Discard, "", 0)}
	s := &socketServer{t: t, r: r, hs: hs, addr: addr}
	accepted := observedListener{ln, s}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if secret != nil {
			_ = hs.Serve(tls.NewListener(accepted, secret))
		} else {
			_ = hs.Serve(accepted)
		}
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Errorf("the router does not shut down: %v", err)
		}
		_ = hs.Close()
		<-served
		if t.Failed() {
			return // what is left is likely the same failure
		}
		s.left("goroutines to end with the server")
	})
	t.Cleanup(s.hangUpAll) // before that
	return s
}

// observedListener is a listener whose sockets send from small buffers: the kernel would
// take megabytes off the server's hands before a client that does not read is felt. The server is told their write
// deadlines.
type observedListener struct {
	net.Listener
	s *socketServer
}

func (l observedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(16 << 10)
		return &observedSocket{tcp, l.s}, nil
	}
	return nc, err
}

type observedSocket struct {
	*net.TCPConn
	s *socketServer
}

func (o *observedSocket) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		o.s.deadlines.Add(1)
	}
	o.s.limited.Store(!t.IsZero())
	return o.TCPConn.SetWriteDeadline(t)
}

// certificate makes a certificate for 127.0.0.1, and clients that trust it.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	// Of the key exchanges, one that costs little: many tests open hundreds of connections.
	return server, &tls.Config{
		RootCAs: roots, ServerName: "127.0.0.1",
		CurvePreferences: []tls.CurveID{tls.X25519}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
}

// recovered checks that nothing of earlier clients is left and that the server
// serves the next one.
func (s *socketServer) recovered() {
	s.t.Helper()
	s.settled()
	p := s.dial()
	p.write(echo("next", "client"))
	p.expect("reply next client")
	p.bye()
	s.settled()
}

// settled waits until nothing of any client is left.
func (s *socketServer) settled() {
	s.t.Helper()
	eventually(s.t, "all connections to be forgotten", func() bool {
		return s.r.Stats().Connections == 0 && s.r.Stats().Topics == 0
	})
	s.left("goroutines to end with their connections", "timerwheel.(*Wheel", "watchdog.(*Watchdog", "http.(*Server).Serve")
}

// left waits until no goroutines are left that the server or its test has started, but those that are allowed.
func (s *socketServer) left(what string, allowed ...string) {
	s.t.Helper()
	var stacks []string
	defer func() {
		if len(stacks) > 0 {
			s.t.Logf("left:\n%s", strings.Join(stacks, "\n\n"))
		}
	}()
	eventually(s.t, what, func() bool {
		stacks = leaktest.InGroup(s.addr, allowed...)
		return len(stacks) == 0
	})
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, condition)
}

// peer is a WebSocket client made by hand: it sends any bytes and shows every
// frame it gets.
type peer struct {
	t  testing.TB
	nc *net.TCPConn // nil: a pipe
	br *bufio.Reader

	socket  net.Conn // nc or a pipe
	rw      net.Conn // socket, or TLS over it
	closing sync.Once
}

// handshake is a valid request to open a connection, with further header lines.
func (s *socketServer) handshake(lines ...string) string {
	return "GET /ws HTTP/1.1\r\nHost: " + s.addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
		strings.Join(append(lines, ""), "\r\n") + "\r\n"
}

// connect opens a socket and says nothing. It is closed at the end of the test.
func (s *socketServer) connect() *peer {
	s.t.Helper()
	var p *peer
	if s.pipes != nil {
		server, client := net.Pipe()
		s.pipes.conns <- server
		p = &peer{t: s.t, socket: client, rw: client}
	} else {
		nc, err := net.DialTimeout("tcp", s.addr, poll.Guard)
		if err != nil {
			s.t.Fatal(err)
		}
		p = &peer{t: s.t, nc: nc.(*net.TCPConn), socket: nc, rw: nc}
	}
	if s.tls != nil {
		p.rw = tls.Client(p.socket, s.tls)
	}
	p.br = bufio.NewReader(p.rw)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = append(s.peers, p)
	return p
}

// hangUpAll closes the sockets of all clients.
func (s *socketServer) hangUpAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		p.hangUp()
	}
	s.peers = nil
}

// dial opens a WebSocket connection.
func (s *socketServer) dial(lines ...string) *peer {
	s.t.Helper()
	p := s.connect()
	p.write([]byte(s.handshake(lines...)))
	if res := p.response(); res.StatusCode != http.StatusSwitchingProtocols {
		s.t.Fatalf("the handshake is answered %s", res.Status)
	}
	return p
}

// response reads the answer to a handshake.
func (p *peer) response() *http.Response {
	p.t.Helper()
	_ = p.socket.SetReadDeadline(time.Now().Add(poll.Guard))
	res, err := http.ReadResponse(p.br, nil)
	if err != nil {
		p.t.Fatalf("reading the answer to a handshake: %v", err)
	}
	return res
}

// write sends bytes in one write each.
func (p *peer) write(writes ...[]byte) {
	p.t.Helper()
	for _, b := range writes {
		if err := p.tryWrite(b); err != nil {
			p.t.Fatalf("writing %d bytes: %v", len(b), err)
		}
	}
}

// tryWrite is for a server that may have hung up.
func (p *peer) tryWrite(b []byte) error {
	if len(b) == 0 {
		return nil // a pipe would have its reader read nothing
	}
	_ = p.socket.SetWriteDeadline(time.Now().Add(poll.Guard))
	_, err := p.rw.Write(b)
	return err
}

// hangUp closes the socket as a crashed client's kernel does.
func (p *peer) hangUp() { p.closing.Do(func() { _ = p.socket.Close() }) }

// reset closes the socket with a RST in place of a FIN.
func (p *peer) reset() {
	_ = p.nc.SetLinger(0)
	p.hangUp()
}

// bye closes the connection as the protocol requires.
func (p *peer) bye() {
	p.t.Helper()
	p.write(closing(1000, ""))
	p.expect("close 1000", "end")
	p.hangUp()
}

// received is a frame from the server.
type received struct {
	b0      byte
	payload []byte
}

// read returns the next frame; io.EOF stands for any end of the stream between
// two frames.
func (p *peer) read() (f received, err error) {
	_ = p.socket.SetReadDeadline(time.Now().Add(poll.Guard))
	var head [10]byte
	if _, err := io.ReadFull(p.br, head[:2]); err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			return f, fmt.Errorf("nothing came within %v", poll.Guard)
		}
		return f, io.EOF
	}
	if head[1]&0x80 != 0 {
		return f, fmt.Errorf("the server sent a masked frame")
	}
	n := uint64(head[1])
	switch n {
	case 126:
		if _, err := io.ReadFull(p.br, head[2:4]); err != nil {
			return f, fmt.Errorf("within a header: %w", err)
		}
		n = uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		if _, err := io.ReadFull(p.br, head[2:10]); err != nil {
			return f, fmt.Errorf("within a header: %w", err)
		}
		n = binary.BigEndian.Uint64(head[2:])
	}
	f.b0, f.payload = head[0], make([]byte, n)
	if _, err := io.ReadFull(p.br, f.payload); err != nil {
		return f, fmt.Errorf("within a frame of %d bytes: %w", n, err)
	}
	if f.b0 == fin|rsv1|opText {
		f.b0 = fin | opText
		if f.payload, err = io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(f.payload), strings.NewReader(deflateTail+"\x01\x00\x00\xff\xff")))); err != nil {
			return f, fmt.Errorf("a compressed message: %w", err)
		}
	}
	return f, nil
}

// next reads a frame and says what it is.
func (p *peer) next() string {
	p.t.Helper()
	f, err := p.read()
	switch {
	case err == io.EOF:
		return "end"
	case err != nil:
		return "error: " + err.Error()
	}
	return f.String()
}

// expect reads frames and compares what they are.
func (p *peer) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if got := p.next(); got != w {
			p.t.Fatalf("got %.300q, want %.300q", got, w)
		}
	}
}

// expectInAnyOrder reads as many frames as are wanted and compares them.
func (p *peer) expectInAnyOrder(want ...string) {
	p.t.Helper()
	var got []string
	for range want {
		got = append(got, p.next())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Fatalf("got %.300q, want %.300q", got, want)
	}
}

// rest reads all that comes until the stream ends.
func (p *peer) rest() (frames []string) {
	for {
		f := p.next()
		frames = append(frames, f)
		if f == "end" || strings.HasPrefix(f, "error: ") {
			return frames
		}
	}
}

// String describes a frame: "reply <id> <text>", "RPC_ERROR <id> <code>",
// "ERROR <code>", "pong <payload>", "close <code>", an event by its type and
// payload.
func (f received) String() string {
	switch f.b0 {
	case 0x81:
		var m struct {
			Type string
			Meta struct{ CorrelationID string }
			// Payload is kept as it is for events.
			Payload json.RawMessage
		}
		if err := json.Unmarshal(f.payload, &m); err != nil {
			return fmt.Sprintf("text that is not JSON (%v): %.100q", err, f.payload)
		}
		switch id := m.Meta.CorrelationID; {
		case m.Type == "ERROR" && id == "":
			return "ERROR " + codeOf(m.Payload)
		case m.Type == "RPC_ERROR":
			return "RPC_ERROR " + id + " " + codeOf(m.Payload)
		case id != "" && strings.HasSuffix(m.Type, ".reply"):
			var s said
			_ = json.Unmarshal(m.Payload, &s)
			return "reply " + id + " " + s.Text
		default:
			return m.Type + " " + string(m.Payload)
		}
	case 0x88:
		if len(f.payload) < 2 {
			return "close"
		}
		return fmt.Sprintf("close %d", binary.BigEndian.Uint16(f.payload))
	case 0x89:
		return "ping " + string(f.payload)
	case 0x8A:
		return "pong " + string(f.payload)
	default:
		return fmt.Sprintf("frame %#x %.100q", f.b0, f.payload)
	}
}

func codeOf(payload []byte) string {
	var e struct {
		Code      string
		Retryable *bool
	}
	_ = json.Unmarshal(payload, &e)
	if e.Retryable == nil {
		return e.Code + " without retryable"
	}
	return e.Code
}

// rawFrame is a client's frame in which everything can be wrong.
type rawFrame struct {
	b0       byte // FIN, reserved bits, opcode
	payload  string
	unmasked bool
	length   byte   // 126 or 127: the form of the length, needed or not
	declared uint64 // in place of the payload's length
}

const (
	fin, rsv1, rsv2, rsv3 = 0x80, 0x40, 0x20, 0x10

	opCont, opText, opBinary, opClose, opPing, opPong = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
)

// mask has a zero byte, four different ones, and one with the high bit.
var mask = [4]byte{0x37, 0x00, 0xFA, 0x21}

func (f rawFrame) bytes() []byte {
	n := uint64(len(f.payload))
	if f.declared > 0 {
		n = f.declared
	}
	form := f.length
	switch {
	case form != 0:
	case n <= 125:
		form = byte(n)
	case n <= 0xFFFF:
		form = 126
	default:
		form = 127
	}
	maskBit := byte(0x80)
	if f.unmasked {
		maskBit = 0
	}
	b := []byte{f.b0, maskBit | form}
	switch form {
	case 126:
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	case 127:
		b = binary.BigEndian.AppendUint64(b, n)
	}
	if f.unmasked {
		return append(b, f.payload...)
	}
	b = append(b, mask[:]...)
	for i := range len(f.payload) {
		b = append(b, f.payload[i]^mask[i%4])
	}
	return b
}

func frame(b0 byte, payload string) []byte { return rawFrame{b0: b0, payload: payload}.bytes() }

// Frames that are as they should be.
func textFrame(payload string) []byte { return frame(fin|opText, payload) }
func ping(payload string) []byte      { return frame(fin|opPing, payload) }
func pong(payload string) []byte      { return frame(fin|opPong, payload) }

func closing(code uint16, reason string) []byte {
	return frame(fin|opClose, string(binary.BigEndian.AppendUint16(nil, code))+reason)
}

func echoJSON(id, text string) string {
	return fmt.Sprintf(`{"type":"echo","meta":{"correlationId":%q},"payload":{"text":%q}}`, id, text)
}

// echo is a request that is answered "reply <id> <text>".
func echo(id, s string) []byte { return textFrame(echoJSON(id, s)) }

func join(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

// takesTime is called by tests that wait for seconds of real time: make check leaves them out, make
// test runs them.
func takesTime(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("waits for seconds of real time; make test runs it")
	}
}

// spend lets time pass in a handler, a hook, a broker or a log of a test, so that it is interleaved with others in many
// ways. No test passes or fails by how long it takes.
func spend(d time.Duration) { spendUntil(nil, d) }

// spendUntil is spend that ends early when a channel is closed: it reports false then.
func spendUntil(done <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-done:
		return false
	case <-time.After(d):
		return true
	}
}
