package cfdo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/wskit/wskit/internal/batch"
)

const (
	// idleTimeout is less than the 15 s after which a Worker's server closes a
	// connection: a request that meets the closing is lost.
	idleTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer: a request full of logs.
	maxAnswer = 64 << 20
	// maxDials is how often a connection is tried, and redial the pause before
	// another time.
	maxDials = 3
	redial   = 10 * time.Millisecond
)

// newTransport is for one host and few requests at a time.
func newTransport(requests int) *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: requests, IdleConnTimeout: idleTimeout,
		DisableCompression: true,
	}
}

// send makes the request for a batch of calls, or several when they do not fit
// into one.
func (s *store) send(ctx context.Context, batch []*batch.Item[call]) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	b := body{now: s.now()}
	var sends sync.WaitGroup
	begin := 0
	for i, it := range batch {
		if b.add(&it.Value) {
			continue
		}
		full, calls := b, batch[begin:i]
		sends.Go(func() { s.sendOne(ctx, &full, calls) })
		b, begin = body{now: b.now}, i
		b.add(&it.Value)
	}
	s.sendOne(ctx, &b, batch[begin:])
	sends.Wait()
}

// sendOne makes one request and fills in what it says.
func (s *store) sendOne(ctx context.Context, b *body, batch []*batch.Item[call]) {
	s.asks.Add(int64(b.asks))
	answers, err := s.post(ctx, b.end(), b.calls)
	for _, it := range batch {
		if err != nil {
			it.Err = err
			continue
		}
		answers, it.Err = it.Value.read(answers)
	}
}

// post sends a body and returns the answers to its calls. It sends it again only
// when there was no connection to send it on.
func (s *store) post(ctx context.Context, text []byte, calls int) ([]json.RawMessage, error) {
	for dials := 1; ; dials++ {
		// The body is a bytes.Reader, so that net/http may use another connection
		// when it could write nothing at all to the first. Once it has written
		// something it repeats no POST, if there is no Idempotency-Key header.
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(text))
		if err != nil {
			return nil, unreachable(ctx, err, false)
		}
		req.Header.Set("Authorization", s.bearer)
		req.Header.Set("Content-Type", "application/json")
		s.requests.Add(1)
		resp, err := s.client.Do(req)
		if err == nil {
			return s.receive(ctx, resp, calls)
		}
		sent := !isDial(err)
		if sent || dials == maxDials || !pause(ctx, redial) {
			return nil, unreachable(ctx, err, sent)
		}
		s.retries.Add(1)
	}
}

// isDial reports whether an error is that there was no connection.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// pause waits, and reports whether there is time left.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// receive reads an answer. Only one that is 200 and JSON holds decisions.
func (s *store) receive(ctx context.Context, resp *http.Response, calls int) ([]json.RawMessage, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, unreachable(ctx, err, true)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w (%s)", statusError(resp.StatusCode), complaint(resp.Status, text))
	}
	if kind != "application/json" {
		return nil, fmt.Errorf("%w: it answers with %q; is this its URL?", ErrBadRequest, kind)
	}
	return parseAnswers(text, calls)
}

func statusError(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ErrUnauthorized
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return ErrOverloaded
	case status >= 500:
		return errFailed
	default:
		return ErrBadRequest
	}
}

// complaint is what an answer that is no decision says.
func complaint(status string, text []byte) string {
	var wire struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(text, &wire) != nil || wire.Error.Message == "" {
		return status
	}
	message := wire.Error.Message
	return status + ": " + message[:min(len(message), 200)]
}

// checkURL returns the address of the batches of the Worker at a URL. Its errors hold
// nothing of the URL but the host of one that is well-formed: every other part may be
// a secret, and so may what url.Parse complains about.
func checkURL(text string, insecure bool) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return "", errors.New("cfdo: the URL is not that of a Worker, such as https://name.account.workers.dev")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("cfdo: the URL of %q has a user, a path, a query or a fragment; leave out everything but https://host", u.Host)
	case u.Scheme == "http" && !insecure && !loopback(u.Hostname()):
		return "", fmt.Errorf("cfdo: the URL of %q is http, which sends the secret unencrypted; use https, or set Options.InsecureHTTP", u.Host)
	}
	return u.Scheme + "://" + u.Host + "/v1/batch", nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// checkSecret refuses what cannot be sent in a header as it is.
func checkSecret(secret string) error {
	if secret == "" {
		return errors.New("cfdo: the secret is empty; pass the one that was set with wrangler secret put SECRET")
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("cfdo: the secret must be of printable ASCII without spaces: openssl rand -hex 32 makes one")
	}
	return nil
}
