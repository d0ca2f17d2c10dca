// Package faulttest runs servers as processes of their own on a real Redis, breaks what
// they stand on while clients use them, and checks what users were promised.
package faulttest
