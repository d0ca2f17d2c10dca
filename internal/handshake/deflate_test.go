package handshake

import (
	"net/http"
	"testing"
)

// RFC 7692, section 7.1: which offers are accepted, and with what.
func TestDeflate(t *testing.T) {
	const both = "permessage-deflate; client_no_context_takeover; server_no_context_takeover"
	for _, c := range []struct {
		want  string
		lines []string
	}{
		{"", nil},
		{"", []string{""}},
		{"", []string{"x-webkit-deflate-frame"}},
		{both, []string{"permessage-deflate"}},
		{both, []string{"Permessage-Deflate"}},
		{both, []string{"permessage-deflate; client_no_context_takeover; server_no_context_takeover"}},
		{both, []string{"permessage-deflate;server_no_context_takeover;client_no_context_takeover"}},
		{both, []string{"permessage-deflate; client_max_window_bits"}},
		{both, []string{"permessage-deflate; client_max_window_bits=8"}},
		{both, []string{"permessage-deflate; client_max_window_bits=15"}},
		{both, []string{`permessage-deflate; client_max_window_bits="10"`}},
		{both, []string{`permessage-deflate; client_max_window_bits="1\0"`}},
		{both + "; server_max_window_bits=15", []string{"permessage-deflate; server_max_window_bits=15"}},
		{both + "; server_max_window_bits=15", []string{"permessage-deflate ; client_max_window_bits ;\tserver_max_window_bits = 15"}},

		// out of range, or not a number
		{"", []string{"permessage-deflate; client_max_window_bits=7"}},
		{"", []string{"permessage-deflate; client_max_window_bits=16"}},
		{"", []string{"permessage-deflate; client_max_window_bits=99"}},
		{"", []string{"permessage-deflate; client_max_window_bits=0"}},
		{"", []string{"permessage-deflate; client_max_window_bits=010"}},
		{"", []string{"permessage-deflate; client_max_window_bits=-9"}},
		{"", []string{"permessage-deflate; client_max_window_bits=abc"}},
		{"", []string{"permessage-deflate; client_max_window_bits="}},
		{"", []string{`permessage-deflate; client_max_window_bits=""`}},
		{"", []string{"permessage-deflate; server_max_window_bits"}},
		{"", []string{"permessage-deflate; server_max_window_bits=7"}},
		{"", []string{"permessage-deflate; server_max_window_bits=16"}},
		{"", []string{"permessage-deflate; server_max_window_bits=015"}},
		// a window smaller than ours
		{"", []string{"permessage-deflate; server_max_window_bits=8"}},
		{"", []string{"permessage-deflate; server_max_window_bits=14"}},
		// values where none is allowed
		{"", []string{"permessage-deflate; client_no_context_takeover=1"}},
		{"", []string{"permessage-deflate; server_no_context_takeover=true"}},
		// repeated
		{"", []string{"permessage-deflate; client_no_context_takeover; client_no_context_takeover"}},
		{"", []string{"permessage-deflate; server_no_context_takeover; server_no_context_takeover"}},
		{"", []string{"permessage-deflate; client_max_window_bits; client_max_window_bits"}},
		{"", []string{"permessage-deflate; client_max_window_bits=10; Client_Max_Window_Bits=10"}},
		{"", []string{"permessage-deflate; server_max_window_bits=15; server_max_window_bits=15"}},
		// not defined
		{"", []string{"permessage-deflate; unheard_of"}},
		{"", []string{"permessage-deflate; unheard_of=1; client_max_window_bits"}},

		// the first that can be accepted
		{both, []string{"permessage-deflate; server_max_window_bits=10, permessage-deflate"}},
		{both, []string{"permessage-deflate; server_max_window_bits=10", "permessage-deflate"}},
		{both, []string{"x-other; a=b; c, permessage-deflate"}},
		{"", []string{`x-other; a="b, permessage-deflate; server_max_window_bits=15", permessage-deflate`}},
		{both + "; server_max_window_bits=15", []string{"permessage-deflate; server_max_window_bits=15, permessage-deflate"}},
		{both, []string{",, permessage-deflate"}},

		// what cannot be read
		{"", []string{"permessage-deflate;"}},
		{"", []string{"permessage-deflate; =1"}},
		{"", []string{"permessage-deflate server_no_context_takeover"}},
		{"", []string{`permessage-deflate; client_max_window_bits="10`}},
		{"", []string{`permessage-deflate; client_max_window_bits="10\`}},
		{"", []string{"(permessage-deflate)"}},
		{"", []string{"permessage-deflate; client_max_window_bits=1 0"}},
		{both, []string{"permessage-deflate; x=", "permessage-deflate"}},
	} {
		r := &http.Request{Header: http.Header{"Sec-Websocket-Extensions": c.lines}}
		if got := Deflate(r); got != c.want {
			t.Errorf("%q: answered %q, want %q", c.lines, got, c.want)
		}
	}
}
