package cfdo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/internal/poll"
	"github.com/wskit/wskit/internal/workerdtest"
	"github.com/wskit/wskit/limit"
)

// values are what a field of a request should not be, each for some of the fields.
var values = []string{
	"null", "true", `""`, `"1"`, "[]", "[1]", "{}", `{"op":"take"}`, "-1", "0", "0.5", "1e300", "-1e300", "9007199254740992", "-9007199254740993",
	"1e-7", `"\ud800"`, `"\u0000"`, `"` + strings.Repeat("x", 2000) + `"`, `[[[[[[[[[[]]]]]]]]]]`,
}

// malformed draws a call with one thing wrong: a field that is missing, of the wrong
// type, out of range, unknown, or for a policy that makes no sense.
func malformed() *rapid.Generator[string] {
	calls := []map[string]string{
		{"op": `"take"`, "key": `"bad"`, "policy": "0", "cost": "1"},
		{"op": `"peek"`, "key": `"bad"`, "policy": "0", "cost": "1", "tenant": `"t"`},
		{"op": `"reset"`, "key": `"bad"`, "policy": "0"},
		{"op": `"refund"`, "key": `"bad"`, "policy": "0", "taken": `{"charged":1,"at":1}`},
		{"op": `"all"`, "asks": `[{"key":"bad","policy":0,"cost":1}]`},
	}
	text := func(fields map[string]string) string {
		var parts []string
		for name, value := range fields {
			parts = append(parts, fmt.Sprintf("%q:%s", name, value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return rapid.Custom(func(t *rapid.T) string {
		fields := map[string]string{}
		var names []string
		for name, value := range rapid.SampledFrom(calls).Draw(t, "call") {
			fields[name] = value
		}
		for _, name := range []string{"op", "key", "policy", "cost", "taken", "asks", "tenant"} {
			if _, ok := fields[name]; ok {
				names = append(names, name)
			}
		}
		value := rapid.SampledFrom(values).Draw(t, "value")
		switch name := rapid.SampledFrom(names).Draw(t, "field"); rapid.IntRange(0, 5).Draw(t, "what is wrong") {
		case 0:
			return value
		case 1:
			delete(fields, name)
		case 2:
			fields["unknown"] = value
		case 3:
			fields["policy"] = rapid.SampledFrom([]string{"1", "2", "3", "4", "99"}).Draw(t, "bad policy")
		case 4:
			at := rapid.SampledFrom([]string{"charged", "at", "more"}).Draw(t, "of a charge")
			fields = map[string]string{"op": `"refund"`, "key": `"bad"`, "policy": "0", "taken": fmt.Sprintf(`{"charged":1,"at":1,%q:%s}`, at, value)}
		default:
			fields[name] = value
		}
		return text(fields)
	})
}

// One bad call of a request fails alone, whatever is wrong with it: the good ones
// around it are answered and charged exactly.
func TestMalformedCallsFailAlone(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	const policies = `[{"kind":"token_bucket","capacity":1000,"refill":1,"per":3600000000},{},null,{"kind":"fixed_window","limit":-1,"window":0.5},"token_bucket"]`
	name, run := own("good"), 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		var calls []string
		var good []int
		for i := range rapid.IntRange(1, 8).Draw(t, "calls") {
			if rapid.Bool().Draw(t, "good") {
				good = append(good, i)
				calls = append(calls, fmt.Sprintf(`{"op":"take","key":"%s%d","policy":0,"cost":1}`, name, run))
			} else {
				calls = append(calls, malformed().Draw(t, "call"))
			}
		}
		body := `{"policies":` + policies + `,"calls":[` + strings.Join(calls, ",") + `]}`
		var answer struct{ Answers []json.RawMessage }
		status, err := post(w.URL+"/v1/batch", body, &answer)
		if err != nil || status != http.StatusOK || len(answer.Answers) != len(calls) {
			t.Fatalf("%d for %d calls: %d answers, %v\n%s", status, len(calls), len(answer.Answers), err, body)
		}
		for n, i := range good {
			var d []int64
			if err := json.Unmarshal(answer.Answers[i], &d); err != nil || d[0] != 1 || d[3] != int64(999-n) {
				t.Fatalf("the good call %d is answered %s\n%s", i, answer.Answers[i], body)
			}
		}
	})
}

// Whatever one caller asks through the store, the callers that share its requests get
// their decisions.
func TestBadAsksSpoilNoSharedRequest(t *testing.T) {
	t.Parallel()
	w := workerdtest.Shared(t)
	s := openStore(t, w.URL, cfdo.Options{Requests: 1, Timeout: poll.Guard, Remember: -1, Tenant: func(key string) string {
		if strings.HasPrefix(key, "long tenant") {
			return strings.Repeat("t", 5000)
		}
		return ""
	}})
	good := own("good")
	plenty := limit.TokenBucket{Capacity: 500_000, Refill: 1, Per: time.Hour}
	huge := func(i int) limit.Policy { // every part of another rate, in the largest numbers
		var parts []limit.Policy
		for j := range 8 {
			parts = append(parts, limit.TokenBucket{Capacity: 1, Refill: int64(1+i%7) * 1_000_000_000_000_000, Per: time.Duration(1+j) * 1_000_000_000_000 * time.Microsecond})
		}
		return limit.All(parts...)
	}
	bad := []func(i int) error{
		func(i int) error {
			return s.Refund(ctx, []byte("bad"), ten, limit.Decision{Charged: 1, At: -int64(i), ResetAfter: -time.Second})
		},
		func(int) error {
			return s.Refund(ctx, []byte("bad"), ten, limit.Decision{Charged: math.MaxInt64, At: math.MinInt64, ResetAfter: math.MinInt64})
		},
		func(int) error {
			return s.Refund(ctx, []byte("bad"), ten, limit.Decision{Charged: 1, At: math.MaxInt64, ResetAfter: math.MaxInt64})
		},
		func(int) error { _, err := s.Take(ctx, []byte(""), ten, 1); return err },
		func(int) error { _, err := s.Take(ctx, []byte("bad"), ten, math.MaxInt64); return err },
		func(int) error { _, err := s.Take(ctx, []byte("\xff\x00\ud7ff\"\\"), ten, 1); return err },
		func(int) error { _, err := s.Take(ctx, []byte(strings.Repeat("\xff", 1024)), ten, 1); return err },
		func(int) error { _, err := s.Take(ctx, []byte(strings.Repeat("k", 1<<16)), ten, 1); return err },
		func(int) error { _, err := s.Take(ctx, []byte("long tenant"), ten, 1); return err },
		func(i int) error { _, err := s.Take(ctx, []byte("bad"), huge(i), 1); return err },
		func(i int) error {
			requests := make([]limit.Ask, 64)
			for j := range requests {
				requests[j] = limit.Ask{Key: fmt.Appendf(nil, "%s%d", strings.Repeat("\xff", 1000), j), Policy: huge(i), Cost: 1}
			}
			return s.TakeMany(ctx, requests)
		},
	}
	const callers, rounds = 16, 20
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range rounds {
				if d, err := s.Take(ctx, []byte(good), plenty, 1); err != nil || !d.Allowed {
					t.Errorf("a good take: %+v, %v", d, err)
				}
				if err := bad[(i+n)%len(bad)](i); err != nil {
					t.Errorf("number %d of the others: %v", (i+n)%len(bad), err)
				}
			}
		})
	}
	wg.Wait()
	if d := take(t, s, good, plenty, 1); d.Remaining != 500_000-callers*rounds-1 {
		t.Errorf("%d remain after %d takes", d.Remaining, callers*rounds)
	}
	if st := s.Stats(); st.Requests >= st.Asks {
		t.Errorf("nothing shared a request: %+v", st)
	}
}

// What the Worker finds wrong with one ask goes to its caller alone.
func TestRefusedAskIsAnError(t *testing.T) {
	t.Parallel()
	url, _ := answering(t, http.StatusOK, "application/json", `{"answers":["invalid: the cost is no cost"]}`)
	s := openStore(t, url, cfdo.Options{})
	if _, err := s.Take(ctx, []byte("k"), ten, 1); !errors.Is(err, cfdo.ErrBadRequest) || !strings.Contains(err.Error(), "the cost is no cost") {
		t.Errorf("error %v", err)
	}
}

// post sends a request with the secret to the Worker, without the store.
func post(url, body string, answer any) (status int, err error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+workerdtest.Secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, json.NewDecoder(resp.Body).Decode(answer)
}
