// Package e2e tests the chat example as people use it: the real program, and
// real tabs of a real browser. See install.sh for the browser.
//
//	go test ./...
//
// Pictures of the page are left in screenshots/ for a person to look at.
package e2e
