package webhook

import "net/http"

// WithTransport are options with a transport in place of the network.
func (o Options) WithTransport(t http.RoundTripper) Options {
	o.transport = t
	return o
}
