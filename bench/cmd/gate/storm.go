package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// storm opens connections at a rate, each with a token of its own, from one address,
// and tells how they were answered. It keeps to the rate whether or not the server
// keeps up.
func storm(ctx context.Context, addr string, perSecond int, d time.Duration) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	var refused, accepted, failed, late atomic.Int64
	start := time.Now()
	slots := make(chan struct{}, 2000)
	for n := 0; ctx.Err() == nil; n++ {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
		if due.Sub(start) >= d {
			break
		}
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		select {
		case slots <- struct{}{}:
		default:
			late.Add(1) // the server leaves thousands waiting
			continue
		}
		go func() {
			defer func() { <-slots }()
			switch status, err := knock(ctx, port); {
			case err != nil:
				failed.Add(1)
			case status == 101:
				accepted.Add(1)
			default:
				refused.Add(1)
			}
		}()
	}
	took := time.Since(start)
	for range cap(slots) {
		slots <- struct{}{}
	}
	fmt.Printf("storm: %.0f a second refused, %d let in, %d failed, %d given up, in %v\n",
		float64(refused.Load())/took.Seconds(), accepted.Load(), failed.Load(), late.Load(), took.Round(time.Millisecond))
	return nil
}

// knock makes one handshake and returns the status it is answered with.
func knock(ctx context.Context, port string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, 1)}}
	nc, err := dialer.DialContext(ctx, "tcp4", "127.0.0.1:"+port)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	_ = nc.(*net.TCPConn).SetLinger(0) // thousands in TIME_WAIT would use up the ports
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	request := fmt.Appendf(nil, "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: wskit, bearer.storm-%016x\r\n\r\n",
		port, rand.Uint64())
	if _, err := nc.Write(request); err != nil {
		return 0, err
	}
	var answer [2048]byte
	n, err := nc.Read(answer[:])
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(answer[:n])
	if len(fields) < 2 {
		return 0, fmt.Errorf("answered %q", answer[:n])
	}
	return strconv.Atoi(string(fields[1]))
}
