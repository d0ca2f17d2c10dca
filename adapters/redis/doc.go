// Package redis keeps limits and topics on Redis, so that several processes share
// them.
package redis
