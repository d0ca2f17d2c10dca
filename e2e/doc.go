// Package e2e tests the examples in a real browser, and what the README and the first steps tell their readers to do.
// make e2e installs the browser if it is missing.
//
//	go test ./...
//
// The tests save pictures of the page in screenshots/.
package e2e
