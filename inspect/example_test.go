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
	r := router.New(router.Options{})
	mux := http.NewServeMux()
	mux.Handle("/ws", r)
	mux.Handle("/inspect/", http.StripPrefix("/inspect", inspect.Handler(r, inspect.Options{
		Authorize: func(req *http.Request) (inspect.Viewer, error) {
			// A real server looks at the session of the operator.
			name, password, _ := req.BasicAuth()
			if name != "ann" || password != "secret" {
				return inspect.Viewer{}, errors.Unauthenticated.New("log in first")
			}
			return inspect.Viewer{Name: name, Actions: true}, nil
		},
	})))

	server := httptest.NewServer(mux)
	defer server.Close()
	for _, password := range []string{"guess", "secret"} {
		req, _ := http.NewRequest("GET", server.URL+"/inspect/api/overview", nil)
		req.SetBasicAuth("ann", password)
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
