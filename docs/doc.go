// Package docs holds pages for users, and the tests of what they say: limits.md on
// policies, proxies.md on identity and addresses.
package docs
