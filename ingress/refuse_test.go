package ingress_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

func refuse(r *http.Request, err error) (*httptest.ResponseRecorder, map[string]any) {
	w := httptest.NewRecorder()
	ingress.Refuse(w, r, err)
	var body map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &body)
	return w, body
}

func TestRefuse(t *testing.T) {
	secret := errors.New("password wrong in table users")
	for _, c := range []struct {
		name   string
		err    error
		status int
		code   string
		retry  string
	}{
		{"unauthenticated", errors.Unauthenticated.New("unknown"), 401, "UNAUTHENTICATED", ""},
		{"denied", errors.PermissionDenied.New("no"), 403, "PERMISSION_DENIED", ""},
		{"unavailable", errors.Unavailable.New("later").WithRetryAfter(1500 * time.Millisecond), 503, "UNAVAILABLE", "2"},
		{"a limit", &errors.LimitExceeded{Kind: errors.LimitConnection, RetryAfter: time.Microsecond}, 429, "RESOURCE_EXHAUSTED", "1"},
		{"a whole second", &errors.LimitExceeded{Kind: errors.LimitConnection, RetryAfter: time.Second}, 429, "RESOURCE_EXHAUSTED", "1"},
		{"a code of one's own", errors.Code("TEAPOT").New("short and stout"), 403, "TEAPOT", ""},
		{"a fault", secret, 500, "INTERNAL", ""},
		{"another status", &ingress.Refusal{Err: errors.InvalidArgument.New("no"), Status: 426}, 426, "INVALID_ARGUMENT", ""},
		{"no error in it", &ingress.Refusal{Err: secret}, 500, "INTERNAL", ""},
		{"bytes", errors.PermissionDenied.New("\xff\xfe"), 403, "PERMISSION_DENIED", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, body := refuse(httptest.NewRequest("GET", "/", nil), c.err)
			if w.Code != c.status || body["status"] != float64(c.status) || body["code"] != c.code || w.Header().Get("Retry-After") != c.retry {
				t.Errorf("%d %v %v", w.Code, w.Header(), body)
			}
			if strings.Contains(w.Body.String(), "password") {
				t.Errorf("a fault's text leaves the server: %s", w.Body)
			}
			if id := w.Header().Get("X-Trace-Id"); id != body["traceId"] || len(id) != 32 {
				t.Errorf("the trace is %q and %v", id, body["traceId"])
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
				t.Errorf("%v", w.Header())
			}
		})
	}
}

// Only a valid handshake on an HTTP/1 connection can be accepted. All other requests get the
// plain answer.
func TestRefusalThatCannotBeAccepted(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"no connection to take over": func(*http.Request) {},
		"no handshake":               func(r *http.Request) { r.Header.Del("Upgrade") },
		"two keys":                   func(r *http.Request) { r.Header.Add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==") },
		"a key that is none":         func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", "x") },
		"another version":            func(r *http.Request) { r.Header.Set("Sec-WebSocket-Version", "8") },
		"HTTP/2":                     func(r *http.Request) { r.ProtoMajor = 2 },
		"no upgrade of connections":  func(r *http.Request) { r.Header.Set("Connection", "close") },
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header = http.Header{"Upgrade": {"websocket"}, "Connection": {"keep-alive, Upgrade"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
		change(r)
		w, body := refuse(r, &ingress.Refusal{Err: errors.ResourceExhausted.New("no"), Accept: true})
		if w.Code != 429 || body["code"] != "RESOURCE_EXHAUSTED" || w.Header().Get("Sec-WebSocket-Accept") != "" {
			t.Errorf("%s: %d %v %v", name, w.Code, w.Header(), body)
		}
	}
}

// The close reason of an accepted refusal has the time to wait if it is known, null if waiting
// does not help, and never 0; and what the application says.
func TestTheReasonOfAnAcceptedRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a wait":       {errors.ResourceExhausted.New("no").WithRetryAfter(1500 * time.Millisecond), `{"retryAfterMs":1500,"message":"no"}`},
		"a short wait": {errors.ResourceExhausted.New("no").WithRetryAfter(1), `{"retryAfterMs":1,"message":"no"}`},
		"not known":    {errors.ResourceExhausted.New("no"), `{"message":"no"}`},
		"of a limit":   {&errors.LimitExceeded{Kind: errors.LimitConnection}, `{"message":"too many connections"}`},
		"no use":       {errors.Unauthenticated.New("no"), `{"retryAfterMs":null,"message":"no"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ingress.Refuse(w, r, &ingress.Refusal{Err: c.err, Accept: true})
			}))
			defer s.Close()
			conn, _, err := websocket.Dial(t.Context(), s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = conn.Read(t.Context())
			if closed, ok := errors.AsType[websocket.CloseError](err); !ok || closed.Reason != c.want {
				t.Errorf("closed with %v, want the reason %q", err, c.want)
			}
		})
	}
}

func TestTraceID(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for sent, valid := range map[string]bool{
		"00-" + id + "-00f067aa0ba902b7-01":                              true,
		"00-" + id + "-00f067aa0ba902b7-ff":                              true,
		"cc-" + id + "-00f067aa0ba902b7-01":                              true, // of a version to come
		"cc-" + id + "-00f067aa0ba902b7-01-more":                         true,
		"cc-" + id + "-00f067aa0ba902b7-01more":                          false,
		"00-" + id + "-00f067aa0ba902b7-01-more":                         false,
		"ff-" + id + "-00f067aa0ba902b7-01":                              false,
		"00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01":             false,
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01":         false,
		"00-" + id + "-0000000000000000-01":                              false,
		"00-" + id + "-00f067aa0ba902b7-0g":                              false,
		"00-" + id + "-00f067aa0ba902b7":                                 false,
		"00_" + id + "-00f067aa0ba902b7-01":                              false,
		" 00-" + id + "-00f067aa0ba902b7-01":                             false,
		"cc-" + id + "-00f067aa0ba902b7-01-" + strings.Repeat("x", 9999): false,
		"\r\nSet-Cookie: a=b":                                            false,
		"":                                                               false,
	} {
		got := ingress.TraceID(&http.Request{Header: http.Header{"Traceparent": {sent}}})
		if (got == id) != valid || !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(got) {
			t.Errorf("traceparent %.80q: the trace is %q", sent, got)
		}
	}
	two := &http.Request{Header: http.Header{"Traceparent": {"00-" + id + "-00f067aa0ba902b7-01", "00-" + id + "-00f067aa0ba902b7-01"}}}
	if ingress.TraceID(two) == id {
		t.Error("two traceparents are accepted")
	}
	if a, b := ingress.TraceID(&http.Request{}), ingress.TraceID(&http.Request{}); a == b {
		t.Error("made-up trace ids are the same")
	}
}

func ExampleRefuse() {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/ws", nil)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	ingress.Refuse(w, r, errors.Unavailable.New("the server is shutting down").WithRetryAfter(1200*time.Millisecond))
	fmt.Println(w.Code, w.Header().Get("Retry-After"))
	fmt.Println(w.Body)
	// Output:
	// 503 2
	// {"title":"Service Unavailable","status":503,"detail":"the server is shutting down","code":"UNAVAILABLE","retryAfterMs":1200,"traceId":"4bf92f3577b34da6a3ce929d0e0e4736"}
}
