package redistest

import (
	"context"
	"testing"
	"time"
)

func TestServerComesAndGoes(t *testing.T) {
	s := Start(t)
	s.Do("SET", "a", "1")
	if s.Do("GET", "a") != "1" || s.Calls("get") != 1 {
		t.Errorf("a is %v after %d calls of GET", s.Do("GET", "a"), s.Calls("get"))
	}

	client := s.Client()
	defer client.Close()
	s.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Get(ctx, "a").Err(); err == nil {
		t.Error("a stalled server answers")
	}
	s.Resume()

	s.Kill()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answers")
	}
	s.Run()
	if n := s.Do("EXISTS", "a"); n != int64(0) {
		t.Errorf("EXISTS a is %v after the server was killed", n)
	}
}
