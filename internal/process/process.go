// Package process starts and signals the processes of tests, the same way on every
// system.
package process
