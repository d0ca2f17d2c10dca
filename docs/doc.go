// Package docs holds pages for users, and the tests of what they say: limits.md on
// policies, proxies.md on identity, addresses and rolling deploys.
package docs
