package clienttest

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// handshakeType is what [Cut.Type] is for the request and the answer of the handshake.
const handshakeType = "handshake"

// Cut cuts a connection at one byte: the first connection where it applies. What it says
// counts from the call. Several cuts wait independently of each other.
type Cut struct {
	// Dir is the direction: "up" from the client, or, by default, "down".
	Dir string `json:"dir"`
	// After cuts after so many bytes of this direction, of all connections and with their handshakes. The
	// other fields but How have no effect then.
	After *int `json:"after"`
	// Type is the type of the frame that is cut; "handshake" is the HTTP request or answer. Default: any frame.
	Type string `json:"type"`
	// Frame is how many such frames pass before.
	Frame int `json:"frame"`
	// At is how many bytes of the frame are carried, its header included: at most all. Negative: counted from its
	// end.
	At int `json:"at"`
	// How is "reset" (RST, by default), "fin" (a regular end), or "silent": nothing comes any more, and nothing is
	// closed.
	How string `json:"how"`
}

// Alter changes frames.
type Alter struct {
	Dir   string `json:"dir"`   // default: down
	Type  string `json:"type"`  // default: any
	Do    string `json:"do"`    // "drop", "twice" or "replace"
	With  string `json:"with"`  // the frame for "replace"; {{id}} is the correlationId of the one that is replaced
	Times int    `json:"times"` // default: once; negative: always
}

// SlowOptions are those of [Server.Slow].
type SlowOptions struct {
	BytesPerSecond int `json:"bytesPerSecond"` // 0: no limit
	LatencyMs      int `json:"latencyMs"`      // for each frame
}

// faults are those that are wanted of a proxy. proxy.mu guards them.
type faults struct {
	stalled map[string]bool // by direction
	slow    SlowOptions
	cuts    []*Cut
	alters  []*Alter
	script  RawOptions
}

// forward carries a frame, or whatever it is altered to.
func (p *proxy) forward(l *link, dir string, f *frame, typ string) {
	if len(f.raw) == 0 {
		return
	}
	l.writing[dir].Lock()
	defer l.writing[dir].Unlock()
	for _, f := range p.altered(dir, f, typ) {
		p.write(l, dir, f, typ)
	}
}

func (p *proxy) altered(dir string, f *frame, typ string) []*frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	if typ == handshakeType {
		return []*frame{f}
	}
	for _, a := range p.alters {
		if a.Dir != dir || a.Times == 0 || f.op != opText || a.Type != "" && a.Type != typ {
			continue
		}
		a.Times--
		switch a.Do {
		case "drop":
			return nil
		case "twice":
			return []*frame{f, f}
		default:
			changed := makeFrame(opText, []byte(strings.ReplaceAll(a.With, "{{id}}", f.envelope().Meta.CorrelationID)), dir)
			return []*frame{&changed}
		}
	}
	return []*frame{f}
}

// write writes a frame to one side of a connection. Its lock for writing is held.
func (p *proxy) write(l *link, dir string, f *frame, typ string) {
	p.mu.Lock()
	for p.stalled[dir] && !l.ended && !l.silent {
		p.held++
		p.changed.Wait()
		p.held--
	}
	if l.ended || l.silent {
		p.mu.Unlock()
		return
	}
	n, cut := p.cutFor(dir, f, typ)
	slow := p.slow
	p.mu.Unlock()

	to := l.server
	if dir == down {
		to = l.client
	}
	pause(milliseconds(slow.LatencyMs), nil)
	// Recorded before: what a client has received is in the record.
	p.record.frame(l.conn, dir, f, n == len(f.raw))
	if cut != nil {
		p.record.cut(CutDone{Conn: l.conn, Dir: dir, Type: typ, Byte: n, Of: len(f.raw)})
		defer p.end(l, cut.How)
	}
	piece := n
	if slow.BytesPerSecond > 0 {
		piece = max(1, slow.BytesPerSecond/50)
	}
	for sent := 0; sent < n; sent += piece {
		if sent > 0 {
			pause(20*time.Millisecond, nil)
		}
		if _, err := to.Write(f.raw[sent:min(sent+piece, n)]); err != nil {
			return
		}
	}
}

// cutFor returns how many bytes of a frame are carried, and the cut that follows. p.mu is held.
func (p *proxy) cutFor(dir string, f *frame, typ string) (n int, cut *Cut) {
	n = len(f.raw)
	var left []*Cut
	for _, c := range p.cuts {
		at := n + 1 // beyond the frame: not cut
		switch {
		case c.Dir != dir:
		case c.After != nil:
			if *c.After <= n {
				at = *c.After
			} else {
				*c.After -= len(f.raw)
			}
		case c.Type != typ && (c.Type != "" || typ == handshakeType):
		case c.Frame > 0:
			c.Frame--
		case c.At < 0:
			at = max(0, len(f.raw)+c.At)
		default:
			at = min(c.At, n)
		}
		if at <= n && cut == nil {
			n, cut = at, c
			continue
		}
		left = append(left, c)
	}
	p.cuts = left
	return n, cut
}

// Cut cuts a connection at a byte that is still to come.
func (s *Server) Cut(c Cut) error {
	c.Dir, c.How = cmp.Or(c.Dir, down), cmp.Or(c.How, "reset")
	if err := checkDir(c.Dir); err != nil {
		return err
	}
	if err := checkHow(c.How); err != nil {
		return err
	}
	if c.After != nil {
		after := *c.After
		c.After = &after
	}
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.cuts = append(s.proxy.cuts, &c)
	return nil
}

// CutNowOptions are those of [Server.CutNow].
type CutNowOptions struct {
	How string `json:"how"` // as in Cut
}

// CutNow cuts all connections.
func (s *Server) CutNow(o CutNowOptions) error {
	o.How = cmp.Or(o.How, "reset")
	if err := checkHow(o.How); err != nil {
		return err
	}
	s.proxy.cutAll(o.How)
	return nil
}

// Zombie has the open connections carry nothing any more, without being closed. New ones work.
func (s *Server) Zombie(struct{}) error { return s.CutNow(CutNowOptions{How: "silent"}) }

func (p *proxy) cutAll(how string) {
	p.mu.Lock()
	var all []*link
	for l := range p.open {
		all = append(all, l)
	}
	p.mu.Unlock()
	for _, l := range all {
		p.end(l, how)
	}
}

func checkDir(dir string) error {
	if dir != up && dir != down {
		return fmt.Errorf("the direction %q is neither up nor down", dir)
	}
	return nil
}

func checkHow(how string) error {
	if how != "reset" && how != "fin" && how != "silent" {
		return fmt.Errorf("%q is neither reset, fin nor silent", how)
	}
	return nil
}

// Alter changes frames that are still to come.
func (s *Server) Alter(a Alter) error {
	a.Dir, a.Times = cmp.Or(a.Dir, down), cmp.Or(a.Times, 1)
	if err := checkDir(a.Dir); err != nil {
		return err
	}
	if a.Do != "drop" && a.Do != "twice" && a.Do != "replace" {
		return fmt.Errorf("%q is neither drop, twice nor replace", a.Do)
	}
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.alters = append(s.proxy.alters, &a)
	return nil
}

// StallOptions are those of [Server.Stall].
type StallOptions struct {
	Dir string `json:"dir"` // default: both
}

// Stall has all connections, new ones too, carry nothing until Resume. Nothing is lost.
func (s *Server) Stall(o StallOptions) error {
	if o.Dir != "" {
		if err := checkDir(o.Dir); err != nil {
			return err
		}
	}
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.stalled = map[string]bool{up: o.Dir != down, down: o.Dir != up}
	return nil
}

// Slow has all connections carry slowly.
func (s *Server) Slow(o SlowOptions) error {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.slow = o
	return nil
}

// Resume ends all faults that last or wait: Stall, Slow, Cut, Alter, Refuse and Raw. What is cut stays cut.
func (s *Server) Resume(struct{}) error {
	s.proxy.mu.Lock()
	s.proxy.faults, s.proxy.refused = faults{}, 0
	s.proxy.changed.Broadcast()
	s.proxy.mu.Unlock()
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	s.door.refuse = RefuseOptions{}
	return nil
}

// InjectOptions are those of [Server.Inject].
type InjectOptions struct {
	Frame  string `json:"frame"`
	Binary bool   `json:"binary"`
	Times  int    `json:"times"` // default: 1
	Pad    int    `json:"pad"`   // {{pad}} stands for so many x
}

// Inject sends a frame to all clients, between those of the server.
func (s *Server) Inject(o InjectOptions) error {
	op := byte(opText)
	if o.Binary {
		op = opBinary
	}
	f := makeFrame(op, []byte(strings.ReplaceAll(o.Frame, "{{pad}}", strings.Repeat("x", o.Pad))), down)
	p := s.proxy
	p.mu.Lock()
	var to []*link
	for l := range p.open {
		if l.upgraded {
			to = append(to, l)
		}
	}
	p.mu.Unlock()
	for _, l := range to {
		l.writing[down].Lock()
		for range max(o.Times, 1) {
			p.write(l, down, &f, "")
		}
		l.writing[down].Unlock()
	}
	return nil
}
