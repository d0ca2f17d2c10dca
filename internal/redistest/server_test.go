package redistest

import (
	"context"
	"testing"
	"time"
)

func TestServerStopsAndRestarts(t *testing.T) {
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

func TestClusterMovesSlots(t *testing.T) {
	c := StartCluster(t, 3)
	client := c.Client()
	defer client.Close()
	if err := client.Set(t.Context(), "{a}1", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	slot := int(c.Nodes[0].Do("CLUSTER", "KEYSLOT", "a").(int64))
	to := (c.Owner(slot) + 1) % 3
	c.Move(slot, to, func() {})
	if got := c.Owner(slot); got != to {
		t.Errorf("the slot is at node %d", got)
	}
	if got := client.Get(t.Context(), "{a}1").Val(); got != "1" {
		t.Errorf("the key is %q after it moved", got)
	}
}

func TestSentinelFailsOver(t *testing.T) {
	s := StartSentinel(t)
	s.Master.Kill()
	s.DetectFailures()
	Eventually(t, "the replica is master", func() bool {
		role, _ := s.Replica.Do("ROLE").([]any)
		return len(role) > 0 && role[0] == "master"
	})
}
