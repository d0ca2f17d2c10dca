package engine

// LocalStore is a store whose state ends with this process, and that never waits for anything.
type LocalStore interface{ LocalStore() }
