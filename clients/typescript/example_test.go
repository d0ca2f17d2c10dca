package wskitjs_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	wskitjs "github.com/wskit/wskit/clients/typescript"
)

func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/wskit.js", wskitjs.Handler())
	// mux.Handle("/ws", router)

	server := httptest.NewServer(mux)
	defer server.Close()
	res, err := http.Get(server.URL + "/wskit.js")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	script, _ := io.ReadAll(res.Body)
	fmt.Println(res.Header.Get("Content-Type"), strings.Contains(string(script), "as connect"))
	// Output: text/javascript; charset=utf-8 true
}
