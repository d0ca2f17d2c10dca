package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/exampletest"
	"github.com/wskit/wskit/internal/redistest"
)

// A feed publishes prices and a back office closes sessions, each by calls to the server that has none of the pages, and each
// only what its secret is for.
func TestServices(t *testing.T) {
	const feed, office = "secret-of-the-feed", "secret-of-the-office"
	t.Setenv("DASHBOARD_FEED", feed)
	t.Setenv("DASHBOARD_OFFICE", office)
	redis := redistest.Start(t)
	one, two := exampletest.Start(t, "-redis", redis.URL()), exampletest.Start(t, "-redis", redis.URL())
	ann := two.Dial("ann")
	exampletest.Payload[struct{}](ann, ann.Request("prices.watch", nil, ""), "prices.watch.reply")
	call := func(secret, name, params string) (status int, answer struct{ Connections int }) {
		t.Helper()
		url := "http://" + one.Addr() + "/v1/" + name
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(params))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || json.Unmarshal(b, &answer) != nil {
			t.Fatalf("%v: %s", err, b)
		}
		return res.StatusCode, answer
	}
	const price = `{"topic":"prices","event":"price","data":{"symbol":"ACME","cents":1250},"overflow":"latestOnly","key":"ACME"}`
	if status, _ := call(feed, "publish", price); status != http.StatusOK {
		t.Errorf("the feed: %d", status)
	}
	if p := exampletest.Payload[Price](ann, ann.Expect("price"), "price"); p != (Price{"ACME", 1250}) {
		t.Errorf("the price is %+v", p)
	}
	for _, c := range []struct {
		secret, call, params string
		want                 int
	}{
		{feed, "publish", strings.Replace(price, "1250", "-1", 1), http.StatusBadRequest},
		{feed, "publish", strings.Replace(price, `"prices"`, `"other"`, 1), http.StatusForbidden},
		{feed, "close", `{"user":"ann"}`, http.StatusForbidden},
		{office, "publish", price, http.StatusForbidden},
		{"secret-of-another", "count", `{"all":true}`, http.StatusUnauthorized},
	} {
		if status, _ := call(c.secret, c.call, c.params); status != c.want {
			t.Errorf("%s with %s: %d, want %d", c.call, c.secret, status, c.want)
		}
	}
	if status, closed := call(office, "close", `{"user":"ann","code":4001,"reason":"closed by the office"}`); status != http.StatusOK || closed.Connections != 1 {
		t.Errorf("the office: %d, %+v", status, closed)
	}
	if code := ann.ExpectClose(); code != 4001 {
		t.Errorf("the session is closed with %d", code)
	}
}
