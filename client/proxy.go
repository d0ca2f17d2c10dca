package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// handshaker is the http.Client for a handshake. To a server without TLS behind an HTTP proxy it opens a tunnel, as RFC
// 6455, section 4.1, demands: net/http would give the handshake to the proxy, and most do not pass an upgrade on. For
// all else it is the given one, whose tunnels are those of net/http.
func handshaker(client *http.Client, server string) *http.Client {
	transport, ok := client.Transport.(*http.Transport)
	if client.Transport == nil {
		transport, ok = http.DefaultTransport.(*http.Transport)
	}
	u, err := url.Parse(server)
	if !ok || transport.Proxy == nil || err != nil || u.Scheme != "ws" && u.Scheme != "http" {
		return client
	}
	u.Scheme = "http" // for what the proxy depends on
	proxy, err := transport.Proxy(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: make(http.Header)})
	if err != nil || proxy == nil || proxy.Scheme != "http" && proxy.Scheme != "https" {
		return client
	}
	tunnel := transport.Clone()
	tunnel.Proxy, tunnel.DisableKeepAlives = nil, true
	dial := transport.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	tunnel.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, hostPort(proxy))
		if err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
		if proxy.Scheme == "https" {
			config := transport.TLSClientConfig.Clone()
			if config == nil {
				config = new(tls.Config)
			}
			config.ServerName, config.NextProtos = proxy.Hostname(), nil
			conn = tls.Client(conn, config)
		}
		if err := connectTo(ctx, conn, addr, proxy, transport.ProxyConnectHeader); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("proxy: %w", err)
		}
		return conn, nil
	}
	through := *client
	through.Transport = tunnel
	return &through
}

func hostPort(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// connectTo asks a proxy for a tunnel to addr.
func connectTo(ctx context.Context, conn net.Conn, addr string, proxy *url.URL, header http.Header) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: header.Clone()}
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	// The server says nothing before the handshake, so nothing of it is in this buffer.
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s; give Options.HTTPClient one that makes tunnels for this client", res.Status)
	}
	return nil
}
