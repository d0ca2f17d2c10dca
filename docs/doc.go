// Package docs holds the pages of the guide, and the tests of what they say: all Go code is in a tested file
// (code_test.go), Node runs all JavaScript and TypeScript (scripts_test.go), links lead somewhere
// (links_test.go), and each page's claims have a test beside it.
package docs
