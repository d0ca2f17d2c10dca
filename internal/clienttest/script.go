package clienttest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Step is one step of a script, which plays the server for a connection. The first field that is set says
// which. Without a step with HTTP or Accept before them, the other ones accept the handshake first. After the
// last step the script answers pings and close frames until the client goes.
//
// In Send, {{id}} and {{key}} are the correlationId and the idempotencyKey of the frame that the last Expect has
// waited for, {{i}} is the number of the repetition from 0, and {{pad}} stands for Pad times x.
type Step struct {
	// HTTP refuses the handshake with a status, Header and Body.
	HTTP   int               `json:"http,omitzero"`
	Header map[string]string `json:"header,omitzero"`
	Body   string            `json:"body,omitzero"`
	// Accept accepts the handshake, with this subprotocol if it is set.
	Accept   bool   `json:"accept,omitzero"`
	Protocol string `json:"protocol,omitzero"`
	// Send sends a text frame, Repeat times, a binary one with Binary.
	Send   string `json:"send,omitzero"`
	Binary bool   `json:"binary,omitzero"`
	Repeat int    `json:"repeat,omitzero"`
	Pad    int    `json:"pad,omitzero"`
	// Bytes are sent as they are, in base64.
	Bytes string `json:"bytes,omitzero"`
	// Expect waits for a frame of a type from the client; "*" is any.
	Expect string `json:"expect,omitzero"`
	// SleepMs waits.
	SleepMs int `json:"sleepMs,omitzero"`
	// Close sends a close frame with this code, whatever it is, and Reason, and ends the connection when
	// the client has answered it, or after a second.
	Close  int    `json:"close,omitzero"`
	Reason string `json:"reason,omitzero"`
	// End ends the connection, with "reset" or "fin".
	End string `json:"end,omitzero"`
	// Silent answers nothing any more, neither pings nor a close frame.
	Silent bool `json:"silent,omitzero"`
}

// RawOptions are those of [Server.Raw].
type RawOptions struct {
	Steps []Step `json:"steps"` // none: the next connections have the server again
	Times int    `json:"times"` // of so many connections; default: one, negative: until Resume
}

// Raw has a script in place of the server for the next connections.
func (s *Server) Raw(o RawOptions) error {
	o.Times = cmp.Or(o.Times, 1)
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.script = o
	return nil
}

// nextScript returns the script for the next connection, or nil. p.mu is held.
func (p *proxy) nextScript() []Step {
	if len(p.script.Steps) == 0 || p.script.Times == 0 {
		return nil
	}
	p.script.Times--
	return p.script.Steps
}

// player plays a script.
type player struct {
	p        *proxy
	l        *link
	from     *bufio.Reader
	request  *http.Request
	accepted bool
	frames   chan envelope // from the client
	silent   chan struct{} // closed by Step.Silent
	closed   chan struct{} // closed when the client has closed
	seen     envelope      // by the last Expect
}

func (p *proxy) play(l *link, steps []Step) {
	pl := &player{
		p: p, l: l, from: bufio.NewReader(l.client),
		frames: make(chan envelope, 1024), silent: make(chan struct{}), closed: make(chan struct{}),
	}
	head, err := readHead(pl.from)
	p.record.amend(l.conn, func(a *Attempt) { a.Path, a.Token = requested(head) })
	if err != nil {
		return
	}
	if pl.request, err = http.ReadRequest(bufio.NewReader(bytes.NewReader(head))); err != nil {
		return
	}
	for _, s := range steps {
		if err := pl.step(s); err != nil {
			return
		}
	}
	if pl.accepted {
		<-pl.closed
	}
}

var errEnded = errors.New("the script has ended")

func (pl *player) step(s Step) error {
	if s.HTTP != 0 {
		text := fmt.Sprintf("HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: %d\r\n", s.HTTP, http.StatusText(s.HTTP), len(s.Body))
		for _, name := range slices.Sorted(maps.Keys(s.Header)) {
			text += name + ": " + s.Header[name] + "\r\n"
		}
		_, _ = pl.l.client.Write([]byte(text + "\r\n" + s.Body))
		return errEnded
	}
	if !pl.accepted {
		pl.accept(s.Protocol)
	}
	switch {
	case s.Accept:
	case s.Send != "":
		return pl.send(s)
	case s.Bytes != "":
		raw, err := base64.StdEncoding.DecodeString(s.Bytes)
		if err != nil {
			return err
		}
		_, err = pl.l.client.Write(raw)
		return err
	case s.Expect != "":
		return pl.expect(s.Expect)
	case s.SleepMs != 0:
		if !pause(milliseconds(s.SleepMs), pl.closed) {
			return errEnded
		}
	case s.Close != 0:
		f := makeFrame(opClose, append([]byte{byte(s.Close >> 8), byte(s.Close)}, s.Reason...), down)
		pl.write(&f)
		pause(time.Second, pl.closed) // for the answer of the client
		return errEnded
	case s.End != "":
		pl.p.end(pl.l, s.End)
		return errEnded
	case s.Silent:
		close(pl.silent)
	}
	return nil
}

// accept answers the handshake as RFC 6455 says.
func (pl *player) accept(protocol string) {
	sum := sha1.Sum([]byte(pl.request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	text := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\nX-Client-Id: script\r\n"
	if protocol == "" {
		protocol = selected(pl.request.Header)
	}
	if protocol != "" {
		text += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	_, _ = pl.l.client.Write([]byte(text + "\r\n"))
	pl.accepted = true
	pl.p.mu.Lock()
	pl.l.upgraded = true
	pl.p.mu.Unlock()
	pl.p.running.Go(pl.read)
}

// selected returns the first subprotocol that is offered and no token; if there is none, the first.
func selected(h http.Header) (protocol string) {
	for _, offers := range h.Values("Sec-WebSocket-Protocol") {
		for offer := range strings.SplitSeq(offers, ",") {
			offer = strings.TrimSpace(offer)
			if !strings.HasPrefix(offer, "bearer.") {
				return offer
			}
			protocol = cmp.Or(protocol, offer)
		}
	}
	return protocol
}

// read reads what the client sends, until its end.
func (pl *player) read() {
	defer close(pl.closed)
	for {
		f, err := readFrame(pl.from)
		if err != nil {
			return
		}
		pl.p.record.frame(pl.l.conn, up, &f, true)
		select {
		case <-pl.silent:
			continue
		default:
		}
		switch f.op {
		case opText, opBinary:
			select {
			case pl.frames <- f.envelope():
			default: // the script does not expect as many
			}
		case opPing:
			pong := makeFrame(opPong, f.payload, down)
			pl.write(&pong)
		case opClose:
			echo := makeFrame(opClose, f.payload, down)
			pl.write(&echo)
			return
		}
	}
}

func (pl *player) expect(typ string) error {
	for {
		select {
		case e := <-pl.frames:
			if typ == "*" || e.Type == typ {
				pl.seen = e
				return nil
			}
		case <-pl.closed:
			return net.ErrClosed
		}
	}
}

func (pl *player) send(s Step) error {
	op := byte(opText)
	if s.Binary {
		op = opBinary
	}
	text := strings.NewReplacer(
		"{{id}}", pl.seen.Meta.CorrelationID, "{{key}}", pl.seen.Meta.IdempotencyKey, "{{pad}}", strings.Repeat("x", s.Pad),
	).Replace(s.Send)
	for i := range max(s.Repeat, 1) {
		f := makeFrame(op, []byte(strings.ReplaceAll(text, "{{i}}", fmt.Sprint(i))), down)
		if !pl.write(&f) {
			return net.ErrClosed
		}
	}
	return nil
}

// write writes a frame to the client, and returns false if that is not possible any more.
func (pl *player) write(f *frame) bool {
	pl.l.writing[down].Lock()
	defer pl.l.writing[down].Unlock()
	pl.p.record.frame(pl.l.conn, down, f, true)
	_, err := pl.l.client.Write(f.raw)
	return err == nil
}
