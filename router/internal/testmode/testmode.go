// Package testmode lets package routertest set what only tests need of a router.
package testmode

// Watch makes a *router.Router validate all replies and declared events, and call report for
// those that it does not send. With a nil report it ends that. Package router sets it.
var Watch func(router any, report func(error))
