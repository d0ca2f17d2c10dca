package router

import "net/http"

// Ready returns a handler for the readiness probe of a load balancer or of Kubernetes. It answers 200 while the router
// takes handshakes, and 503 from the moment in which [Router.Shutdown] refuses them. It may be called concurrently.
func (r *Router) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.draining.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}
