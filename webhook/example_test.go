package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/wskit/wskit/router"
	"github.com/wskit/wskit/webhook"
)

// A service gets an event of the application. (This one runs on the same machine.)
func Example() {
	got := make(chan webhook.Event, 10)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var body struct{ Events []webhook.Event }
		if json.NewDecoder(req.Body).Decode(&body) == nil {
			for _, e := range body.Events {
				got <- e
			}
		}
	}))
	defer service.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hook, err := webhook.New(ctx, router.New(), webhook.Options{
		URL: service.URL, Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, Private: true,
	})
	if err != nil {
		panic(err)
	}
	if err := hook.Send(ctx, "order.viewed", "orders:7", map[string]string{"by": "ann"}); err != nil {
		panic(err)
	}
	for e := range got {
		if e.Type == "order.viewed" {
			fmt.Println(e.Topic, string(e.Data))
			break
		}
	}
	// Output: orders:7 {"by":"ann"}
}
