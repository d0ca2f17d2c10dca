package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// poster makes the requests.
type poster struct {
	url     string
	secrets [][]byte
	client  *http.Client
}

func newPoster(o Options) (p poster, err error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return p, fmt.Errorf("webhook: Options.URL is %q; set an https:// URL", u.Redacted())
	case u.Scheme == "http" && !o.Private:
		return p, fmt.Errorf("webhook: Options.URL is %q, without TLS; use https://, or set Private", u.Redacted())
	case len(o.Secrets) == 0:
		return p, fmt.Errorf(`webhook: Options.Secrets is empty; set one, such as "whsec_" and 32 random bytes in base64`)
	}
	p.url = o.URL
	for i, s := range o.Secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		if err != nil || len(key) < 24 || len(key) > 64 {
			return p, fmt.Errorf(`webhook: Options.Secrets[%d] is no key; set 24 to 64 random bytes in base64, behind "whsec_"`, i)
		}
		p.secrets = append(p.secrets, key)
	}
	dialer := &net.Dialer{Timeout: o.Timeout}
	if !o.Private {
		dialer.Control = refusePrivate
	}
	p.client = &http.Client{
		// Without a proxy, which would connect to any address.
		Transport:     &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if o.transport != nil {
		p.client.Transport = o.transport
	}
	return p, nil
}

// refusePrivate refuses to connect to an address that the Internet does not have, whatever name it has been found by.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := at.Addr().Unmap(); !ip.IsGlobalUnicast() || ip.IsPrivate() || carrier.Contains(ip) {
		return fmt.Errorf("webhook: %v is an address of a private network; set Options.Private to send there", ip)
	}
	return nil
}

// carrier is the range of addresses behind those that providers share, RFC 6598.
var carrier = netip.MustParsePrefix("100.64.0.0/10")

// maxAnswer is how much of an answer is read, so that its connection can be used again.
const maxAnswer = 64 << 10

// send makes one request. id is that of the request, the same when it is repeated.
func (p poster) send(ctx context.Context, id string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", p.sign(id, at, body))
	res, err := p.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("webhook: the request failed: %w", failed.Err) // without the URL, which may have a secret
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("webhook: the service answers %s; use a 2xx for what it has taken", res.Status)
	}
	return nil
}

// sign is a signature by each secret, as Standard Webhooks has it.
func (p poster) sign(id, at string, body []byte) string {
	var all []string
	for _, secret := range p.secrets {
		mac := hmac.New(sha256.New, secret)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
