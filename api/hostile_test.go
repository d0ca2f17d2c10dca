package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/errors"
)

// The results of a batch are bounded: the calls behind that are refused, and the others are answered.
func TestBatchOfLargeResults(t *testing.T) {
	s := start(t, func(o *api.Options) { o.Undeclared = true })
	for range 40 {
		s.must("publish", `{"topic":"orders:1","event":"large","data":{"buyer":"`+strings.Repeat("x", 20<<10)+`"}}`)
	}
	const calls = 100
	if one := len(s.must("history", `{"topic":"orders:1"}`).body); one*calls < 50<<20 {
		t.Fatalf("%d bytes are not too many; the test needs a larger result", one*calls)
	}
	call := `{"call":"history","params":{"topic":"orders:1"}},`
	r := s.must("batch", `{"calls":[`+strings.TrimSuffix(strings.Repeat(call, calls), ",")+`]}`)
	last := r.Results[calls-1]
	if len(r.body) > 18<<20 || last.Error == nil || last.Error.Code != errors.ResourceExhausted {
		t.Errorf("%d bytes, and the last call has the error %v", len(r.body), last.Error)
	}
}

// A sender that never ends its request does not keep its place.
func TestSlowBody(t *testing.T) {
	s := start(t, func(o *api.Options) { o.Timeout = 200 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/v1/"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/stats HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{", everything)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("it is answered with %s", res.Status)
	}
}
