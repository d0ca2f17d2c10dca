// Package e2e tests the chat example and the first program of the README in a real browser.
// make e2e installs the browser if it is missing.
//
//	go test ./...
//
// The tests save pictures of the page in screenshots/.
package e2e
