package handshake

import (
	"maps"
	"net/http"
)

// SetFields sets the fields that the answer of a handshake gets from the admission of a gate,
// which may have some: see ingress.Admission.
func SetFields(w http.ResponseWriter, admission any) {
	if a, ok := admission.(interface{ Header() http.Header }); ok {
		maps.Copy(w.Header(), a.Header())
	}
}
