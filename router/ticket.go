package router

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/router/internal/rights"
)

// ResumeOptions say which clients may resume their subscriptions on a new connection. A client
// that was subscribed to a topic with history has a ticket for it, which only the same identity
// (tenant and user) can use. A client without an identity can use any ticket of another one without.
type ResumeOptions struct {
	// Keys sign tickets. All processes have to have the same: the first one signs, and all are
	// accepted. So a key is replaced by adding the new one at the end, in all processes, then
	// moving it to the front, and removing the old one when its tickets are older than MaxAge.
	// Each has at least 32 bytes.
	//
	// Default: that of Backend.Secret, which processes share. Without it a random one: then clients can resume only
	// on the same process.
	Keys [][]byte

	// MaxAge is how old a ticket may be. While a connection lasts, the client gets a new one in time.
	//
	// Default: 24 h. At least 1 min.
	MaxAge time.Duration

	// Allow is called for each topic that a client resumes: a user may have lost the right to it. With an error such as
	// errors.PermissionDenied the client is not subscribed any more. One that is retryable, has no code (a fault), or
	// is that of a context says nothing about the right: the client asks again. ctx ends with the connection. Allow may
	// wait, and is called concurrently.
	//
	// Default: every client with a ticket may.
	Allow func(ctx context.Context, c *Conn, topic string) error
}

const minKey = 32

func (o ResumeOptions) withDefaults() (ResumeOptions, error) {
	o.MaxAge = cmp.Or(o.MaxAge, 24*time.Hour)
	if o.MaxAge < time.Minute {
		return o, fmt.Errorf("router: Options.Resume.MaxAge is %v; it must be at least 1m (0 for 24h)", o.MaxAge)
	}
	for i, key := range o.Keys {
		if len(key) < minKey {
			return o, fmt.Errorf("router: Options.Resume.Keys[%d] has %d bytes; a key has at least %d random ones", i, len(key), minKey)
		}
	}
	return o, nil
}

// tickets issues and checks tickets.
type tickets struct {
	keys   atomic.Pointer[[]ticketKey] // nil: ready has to be called first
	secret func(ctx context.Context, name string) ([]byte, error)
	maxAge time.Duration
}

type ticketKey struct {
	id   [4]byte
	macs *sync.Pool // of *ticketHash: to make one takes longer than to use it
}

// ticketHash makes the HMACs of tickets, one after the other.
type ticketHash struct {
	hash hash.Hash
	buf  [sha256.Size]byte
}

// init sets the keys, unless processes share a secret, which ready asks for.
func (ts *tickets) init(o ResumeOptions, secret func(ctx context.Context, name string) ([]byte, error)) {
	ts.maxAge, ts.secret = o.MaxAge, secret
	switch {
	case len(o.Keys) > 0:
		ts.sign(o.Keys...)
	case secret == nil:
		random := make([]byte, minKey)
		_, _ = rand.Read(random) // never fails
		ts.sign(random)
	}
}

// ready returns when tickets can be issued and checked. It waits for the backend, until it has answered once.
func (ts *tickets) ready(ctx context.Context) error {
	if ts.keys.Load() != nil {
		return nil
	}
	secret, err := ts.secret(ctx, "tickets")
	if err == nil && len(secret) < minKey {
		err = fmt.Errorf("router: Backend.Secret returned %d bytes; make it return at least %d random ones", len(secret), minKey)
	}
	if err != nil {
		return errors.Unavailable.Wrap(err, "the key of tickets is not known")
	}
	ts.sign(secret) // the same for all that ask at the same time
	return nil
}

// sign sets the keys: the first one signs.
func (ts *tickets) sign(secrets ...[]byte) {
	var keys []ticketKey
	for _, secret := range secrets {
		secret = append([]byte(nil), secret...)
		k := ticketKey{macs: &sync.Pool{New: func() any { return &ticketHash{hash: hmac.New(sha256.New, secret)} }}}
		sum := sha256.Sum256(append([]byte("wskit ticket key "), secret...))
		copy(k.id[:], sum[:])
		keys = append(keys, k)
	}
	ts.keys.Store(&keys)
}

// A ticket is, in base64:
//
//	version (1)  key (4)  time in seconds (8)  length of the topic, topic  presence  HMAC (16)
//
// Versions 2 and 4 have, after the time, the instant until which the client may have the topic, in milliseconds (8).
// Versions 3 and 4 have, after these, how many revocations had been carried out, as a rights.Mark (16); without it
// none.
//
// The presence is a 1 and what the connection has joined with, or nothing. With a grace it is a 2, the grace in
// milliseconds (4), and what it has joined with. The HMAC covers all of it, with the identity.
const (
	ticketVersion  = 1
	ticketVersions = 4
	ticketUntil    = 1 // is added to the version of one that ends
	ticketMark     = 2 // likewise, of one with a mark
	ticketHead     = 1 + 4 + 8
	ticketMAC      = 16
)

// ticket is what a ticket says.
type ticket struct {
	topic  string
	joined []byte        // what the connection has joined with; nil: it has not
	grace  time.Duration // JoinOptions.Grace of that
	until  time.Time     // when the right ends; zero: it does not
	mark   *rights.Mark  // of the revocations that the right has outlived; nil: there were none
}

// issue makes a ticket for the identity of a connection.
func (ts *tickets) issue(c *Conn, t ticket) string {
	k := &(*ts.keys.Load())[0]
	b := make([]byte, 0, ticketHead+8+16+2+len(t.topic)+1+4+len(t.joined)+ticketMAC)
	b = append(b, ticketVersion)
	b = append(b, k.id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().Unix()))
	if !t.until.IsZero() {
		b[0] += ticketUntil
		b = binary.BigEndian.AppendUint64(b, uint64(t.until.UnixMilli()))
	}
	if t.mark != nil {
		b[0] += ticketMark
		b = binary.BigEndian.AppendUint64(b, t.mark.Epoch)
		b = binary.BigEndian.AppendUint64(b, t.mark.Offset)
	}
	b = append(binary.AppendUvarint(b, uint64(len(t.topic))), t.topic...)
	switch {
	case t.joined != nil && t.grace > 0:
		b = append(binary.BigEndian.AppendUint32(append(b, 2), uint32(t.grace.Milliseconds())), t.joined...)
	case t.joined != nil:
		b = append(append(b, 1), t.joined...)
	}
	mac := k.mac(b, c.Identity())
	b = append(b, mac[:]...)
	var text [256]byte // of nearly all
	return string(base64.RawURLEncoding.AppendEncode(text[:0], b))
}

// check reads a ticket that the identity may use. It returns one without a topic for all others.
func (ts *tickets) check(text string, id *ingress.Identity) (t ticket) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= ticketHead+ticketMAC || b[0] < ticketVersion || b[0] > ticketVersions {
		return ticket{}
	}
	body, mac := b[:len(b)-ticketMAC], b[len(b)-ticketMAC:]
	keys := *ts.keys.Load()
	for i := range keys {
		k := &keys[i]
		if [4]byte(b[1:5]) != k.id {
			continue
		}
		if own := k.mac(body, id); !hmac.Equal(own[:], mac) {
			continue
		}
		age := time.Since(time.Unix(int64(binary.BigEndian.Uint64(b[5:])), 0))
		if age > ts.maxAge || age < -ts.maxAge {
			return ticket{}
		}
		return parseTicket(b[0]-ticketVersion, body[ticketHead:]) // it was made by issue
	}
	return ticket{}
}

// parseTicket reads what comes after the head.
func parseTicket(has byte, body []byte) (t ticket) {
	number := func() uint64 {
		n := binary.BigEndian.Uint64(body)
		body = body[8:]
		return n
	}
	if has&ticketUntil != 0 {
		t.until = time.UnixMilli(int64(number()))
		if !time.Now().Before(t.until) {
			return ticket{}
		}
	}
	if has&ticketMark != 0 {
		t.mark = &rights.Mark{Epoch: number(), Offset: number()} // in this order
	}
	n, size := binary.Uvarint(body)
	t.topic = string(body[size : size+int(n)])
	switch joined := body[size+int(n):]; {
	case len(joined) > 4 && joined[0] == 2:
		t.grace = time.Duration(binary.BigEndian.Uint32(joined[1:])) * time.Millisecond
		t.joined = joined[5:]
	case len(joined) > 0:
		t.joined = joined[1:]
	}
	return t
}

// mac makes the HMAC of a ticket.
func (k *ticketKey) mac(b []byte, id *ingress.Identity) (mac [ticketMAC]byte) {
	h := k.macs.Get().(*ticketHash)
	defer k.macs.Put(h)
	h.hash.Reset()
	h.add([]byte(id.Tenant))
	h.add([]byte(id.User))
	h.add(b)
	copy(mac[:], h.hash.Sum(h.buf[:0]))
	return mac
}

// add adds bytes and their number.
func (h *ticketHash) add(b []byte) {
	_, _ = h.hash.Write(binary.AppendUvarint(h.buf[:0], uint64(len(b))))
	_, _ = h.hash.Write(b)
}
