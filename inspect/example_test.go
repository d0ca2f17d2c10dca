package inspect_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/inspect"
	"github.com/wskit/wskit/router"
)

func ExampleHandler() {
	r := router.New()
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("/inspect/", http.StripPrefix("/inspect", inspect.Handler(r, inspect.Options{
		Authorize: func(req *http.Request) (inspect.Viewer, error) {
			session, err := req.Cookie("session") // that /login has set
			if err != nil || session.Value != "of ann" {
				return inspect.Viewer{}, errors.Unauthenticated.New("log in first")
			}
			return inspect.Viewer{Name: "ann", Actions: true}, nil
		},
		LoginURL: "/login",
	})))

	server := httptest.NewServer(mux)
	defer server.Close()
	for _, session := range []string{"guess", "of ann"} {
		req, _ := http.NewRequest("GET", server.URL+"/inspect/api/overview", nil)
		req.AddCookie(&http.Cookie{Name: "session", Value: session})
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		res.Body.Close()
		fmt.Println(res.Status)
	}
	// Output:
	// 401 Unauthorized
	// 200 OK
}
