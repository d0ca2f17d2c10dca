package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/wskit/wskit/api"
	"github.com/wskit/wskit/router"
)

func ExampleHandler() {
	r := router.New()
	type Paid struct {
		ID int `json:"id" validate:"min=1"`
	}
	router.Declare[Paid](r, "order.paid")
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("/v1/", api.Handler(r, api.Options{
		Authorize: api.Secrets(map[string]api.Grant{
			"0123456789abcdef": {Name: "billing", Calls: []string{"publish"}, Topics: []string{"orders:*"}}, // from the environment
		}),
	}))

	server := httptest.NewServer(mux)
	defer server.Close()
	for _, data := range []string{`{"id": 7}`, `{"id": "seven"}`} {
		body := strings.NewReader(`{"topic": "orders:7", "event": "order.paid", "data": ` + data + `}`)
		req, _ := http.NewRequest(http.MethodPost, server.URL+"/v1/publish", body)
		req.Header.Set("Authorization", "Bearer 0123456789abcdef")
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Println(res.StatusCode, strings.TrimSpace(string(answer)))
	}
	// Output:
	// 200 {}
	// 400 {"title":"Bad Request","status":400,"detail":"payload does not decode, see the field id","code":"INVALID_ARGUMENT","details":{"fields":[{"path":"id","rule":"type"}]}}
}
