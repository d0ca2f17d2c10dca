// Package docs holds pages for users, and the tests of what they say: limits.md on
// policies, messages.md on Go types and their JSON, proxies.md on identity, addresses and rolling deploys.
package docs
