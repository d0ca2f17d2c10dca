package main

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/bench/load"
)

// bare is no server but the least that any of them has to do: one write(2) of a message to each member's socket, in a
// loop. It uses no Redis, and each process publishes for its own members. What another server costs above this is its
// own; what it has in common with this is the kernel's.
type bare struct {
	mu     sync.Mutex
	topics map[string][]int // descriptors of the members' sockets
}

type connKey struct{}

// withConn makes the connection of a request known to bare.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var fd int
	raw, err := r.Context().Value(connKey{}).(*net.TCPConn).SyscallConn()
	if err == nil {
		err = raw.Control(func(of uintptr) { fd = int(of) })
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered the request
	}
	go b.serve(conn, fd)
}

// serve joins the rooms that the client asks for, until it closes the connection.
func (b *bare) serve(conn *websocket.Conn, fd int) {
	defer conn.CloseNow()
	for {
		var request struct {
			Meta    meta
			Payload join
		}
		if wsjson.Read(context.Background(), conn, &request) != nil {
			return
		}
		b.mu.Lock()
		for _, topic := range []string{load.AllTopic, request.Payload.Room} {
			b.topics[topic] = append(b.topics[topic], fd)
		}
		b.mu.Unlock()
		if wsjson.Write(context.Background(), conn, frame{Type: "joined", Meta: &request.Meta, Payload: struct{}{}}) != nil {
			return
		}
	}
}

// tick is how often bare looks which messages are due: it writes them all, and does not wake up for each.
const tick = 10 * time.Millisecond

func newBare(*redis.Client) node { return &bare{topics: map[string][]int{}} }

func (b *bare) publishAll(_ context.Context, topics []string, messages int, every time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	members := make([][]int, len(topics))
	for i, topic := range topics {
		members[i] = b.topics[topic]
	}
	began := time.Now()
	room := make([]byte, 0, 512)
	for number := range messages {
		for i, topic := range topics {
			if early := time.Until(due(began, every, number, i, len(topics))); early > 0 {
				time.Sleep(max(early, tick))
			}
			text := appendText(room, number, topic)
			for _, fd := range members[i] {
				if _, err := syscall.Write(fd, text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// appendText appends the frame of a message, of 126 bytes or more.
func appendText(b []byte, number int, topic string) []byte {
	const head = 4
	b = append(b, 0x81, 126, 0, 0)
	b = strconv.AppendInt(append(b, `{"type":"said","payload":{"n":`...), int64(number), 10)
	b = strconv.AppendInt(append(b, `,"sent":`...), time.Now().UnixMicro(), 10)
	b = append(append(append(b, `,"topic":"`...), topic...), `","text":"`+text+`"}}`...)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)-head))
	return b
}
