package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/errors"
)

// finding is what a step of a check has found. An empty remedy means that all is well.
type finding struct{ step, found, remedy string }

// check opens a connection step by step, as a page would.
func (c *command) check(ctx context.Context, args []string) int {
	u, err := url.Parse(args[0])
	if err == nil && u.Host == "" {
		err = errors.New("it has no host")
	}
	secure := err == nil && (u.Scheme == "wss" || u.Scheme == "https")
	if err != nil || !secure && u.Scheme != "ws" && u.Scheme != "http" {
		return c.misused("%s is no URL such as wss://chat.example.com/ws", c.withoutToken(args[0]))
	}
	steps := []func(context.Context, *url.URL) finding{c.reach}
	if secure {
		steps = append(steps, c.secured)
	}
	for _, step := range append(steps, c.open) {
		within, cancel := context.WithTimeout(ctx, c.timeout+c.idle)
		f := step(within, u)
		cancel()
		c.print(f)
		if f.remedy != "" {
			return failed
		}
	}
	return done
}

func (c *command) print(f finding) {
	mark, begin, end := "ok  ", "", ""
	if f.remedy != "" {
		mark = "FAIL"
	}
	if c.colour {
		if begin, end = "\x1b[32m", "\x1b[0m"; f.remedy != "" {
			begin = "\x1b[31m"
		}
	}
	fmt.Fprintf(c.out, "%s%s%s %-10s %s\n", begin, mark, end, f.step, printable(c.withoutToken(f.found)))
	if f.remedy != "" {
		fmt.Fprintf(c.out, "     %s\n", f.remedy)
	}
}

// address is the host and the port.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "http": "80", "wss": "443", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (c *command) reach(ctx context.Context, u *url.URL) finding {
	f := finding{step: "address"}
	begun := time.Now()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(u))
	if err != nil {
		f.found = err.Error()
		f.remedy = "nothing accepts connections there: check host, port and firewall, and whether the server runs"
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			f.remedy = "the name has no address: check its spelling and the DNS"
		}
		return f
	}
	defer conn.Close()
	f.found = fmt.Sprintf("%s in %v", conn.RemoteAddr(), time.Since(begun).Round(10*time.Microsecond))
	return f
}

// expiresSoon is the time before the end of a certificate in which it should have been renewed.
const expiresSoon = 7 * 24 * time.Hour

func (c *command) secured(ctx context.Context, u *url.URL) finding {
	f := finding{step: "TLS"}
	dialer := tls.Dialer{Config: &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", address(u))
	if err != nil {
		f.found = err.Error()
		f.remedy = "browsers refuse this: give the server, or its proxy, a certificate of this name that they trust"
		return f
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	left := time.Until(state.PeerCertificates[0].NotAfter)
	version, days := tls.VersionName(state.Version), int(left.Hours()/24)
	f.found = fmt.Sprintf("%s, the certificate is valid for %d days", version, days)
	if left < expiresSoon {
		f.remedy = "renew the certificate: it ends soon"
	}
	return f
}

// open makes the handshake of a page.
func (c *command) open(ctx context.Context, u *url.URL) finding {
	f := finding{step: "handshake"}
	origin := c.origin
	if origin == "" {
		origin = strings.NewReplacer("wss:", "https:", "ws:", "http:").Replace(u.Scheme+":") + "//" + u.Host
	}
	protocols := []string{"wskit"}
	if c.token != "" {
		protocols = append(protocols, "bearer."+c.token)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // as a browser
	conn, res, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPHeader: http.Header{"Origin": {origin}}, Subprotocols: protocols, HTTPClient: &http.Client{CheckRedirect: stay},
	})
	if err != nil {
		f.found, f.remedy = refusal(res, err)
		return f
	}
	defer conn.CloseNow()
	closed := make(chan error, 1)
	go func() {
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				closed <- err
				return
			}
		}
	}()
	begun := time.Now()
	if err := conn.Ping(ctx); err != nil {
		if f.found, f.remedy = closing(err, closed); f.remedy == "" {
			f.found = err.Error()
			f.remedy = "the connection opens, and nothing comes back: a proxy may hold back what it should pass on"
		}
		return f
	}
	f.found = fmt.Sprintf("open from %s, a ping takes %v", origin, time.Since(begun).Round(10*time.Microsecond))
	if c.idle > 0 {
		c.print(f)
		return c.idles(ctx, closed)
	}
	return f
}

// idles keeps the connection, on which only the server's pings come, for a time.
func (c *command) idles(ctx context.Context, closed <-chan error) finding {
	f := finding{step: "idle"}
	begun := time.Now()
	timer := time.NewTimer(c.idle)
	defer timer.Stop()
	select {
	case <-timer.C:
		f.found = fmt.Sprintf("still open after %v", c.idle)
	case err := <-closed:
		f.found = fmt.Sprintf("closed after %v: %v", time.Since(begun).Round(time.Millisecond), err)
		f.remedy = "a proxy closes idle connections: give it a longer timeout (nginx: proxy_read_timeout), " +
			"or Options.Liveness.PingInterval a shorter one"
		if code := websocket.CloseStatus(err); code != -1 {
			f.remedy = fmt.Sprintf("the server has closed it with %d: docs/troubleshooting.md says why", code)
		}
	case <-ctx.Done():
		f.found = "ended"
	}
	return f
}

// closing is for a connection that was accepted and closed at once, as a page is refused.
func closing(err error, closed <-chan error) (found, remedy string) {
	select {
	case err = <-closed:
	case <-time.After(time.Second): // the reader sees it, too
	}
	e, ok := errors.AsType[websocket.CloseError](err)
	if !ok {
		return "", ""
	}
	found = fmt.Sprintf("closed at once with %d %s", e.Code, e.Reason)
	switch errors.CloseCode(e.Code) {
	case errors.CloseUnauthenticated:
		remedy = "the server wants a token, or refuses this one: set WSKIT_TOKEN"
	case errors.ClosePermissionDenied, errors.ClosePolicy:
		remedy = "this user may not connect: see what Options.Authenticate and OnOpen return"
	case errors.CloseTooManyRequests, errors.CloseTryAgainLater:
		remedy = "wait: too many connections, or a server that is starting, full or shutting down"
	default:
		remedy = "docs/troubleshooting.md lists the close codes"
	}
	return found, remedy
}

// refusal is for a handshake that was not accepted.
func refusal(res *http.Response, err error) (found, remedy string) {
	if res == nil {
		return err.Error(), "the server does not answer HTTP there: check the scheme, ws or wss, and the port"
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	found = res.Status
	var problem struct{ Detail, Code string }
	ours := strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json") &&
		json.Unmarshal(body, &problem) == nil
	if ours {
		found += fmt.Sprintf(" (%s: %s)", problem.Code, problem.Detail)
	}
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		return found + ": " + err.Error(), "what answers is not a WebSocket server, or a proxy changes the handshake"
	case ours && (res.StatusCode == http.StatusUpgradeRequired || res.StatusCode == http.StatusBadRequest):
		return found, "the handshake arrives changed: the proxy has to pass Upgrade and Connection on " +
			"(docs/proxies.md; nginx: proxy_http_version 1.1)"
	case ours && res.StatusCode == http.StatusForbidden:
		return found, "set Options.Origins to those of your pages, or try another with -origin"
	case ours && res.StatusCode == http.StatusMisdirectedRequest:
		return found, "set Options.Handshake.Hosts to the name under which the server is reached (docs/proxies.md)"
	case ours && res.StatusCode == http.StatusUnauthorized:
		return found, "the server wants a token, or refuses this one: set WSKIT_TOKEN"
	case ours:
		return found, "docs/troubleshooting.md has the text in brackets"
	case res.StatusCode >= 300 && res.StatusCode < 400:
		found += " to " + res.Header.Get("Location")
		return found, "browsers do not follow redirects of a handshake: use the address to which it leads"
	case res.StatusCode >= http.StatusBadGateway && res.StatusCode <= http.StatusGatewayTimeout:
		return found, "a proxy answers, and does not reach the server behind it"
	default:
		return found, "not the wskit server answers: check the path, and what the proxy does with it (docs/proxies.md)"
	}
}
