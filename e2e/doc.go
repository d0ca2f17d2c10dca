// Package e2e tests the chat example, and the first program of the README, as people
// use them: the real program, and real tabs of a real browser. make e2e installs the
// browser where there is none.
//
//	go test ./...
//
// Pictures of the page are left in screenshots/ for a person to look at.
package e2e
