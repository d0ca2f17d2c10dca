package linger_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wskit/wskit/router/internal/linger"
)

// Each member leaves once: when its time is over, when its user is back, or at the end.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // two may leave at one time
		var left []string
		m := linger.Members{Leave: func(topic, id string) {
			mu.Lock()
			defer mu.Unlock()
			left = append(left, topic+" "+id)
		}}
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(left)
			if !slices.Equal(left, want) {
				t.Errorf("%s: %q have left, want %q", what, left, want)
			}
			left = nil
		}
		m.Keep("a", "ann", "1", time.Second)
		m.Keep("a", "ann", "2", 2*time.Second)
		m.Keep("a", "bob", "3", 2*time.Second)
		m.Keep("b", "ann", "4", 2*time.Second)
		m.Keep("a", "", "5", 2*time.Second)
		time.Sleep(time.Second)
		expect("after a second", "a 1")
		m.Back("a", "ann")
		m.Back("a", "")
		expect("the user is back", "a 2")
		time.Sleep(time.Second)
		expect("after two seconds", "a 3", "a 5", "b 4")
		m.Keep("a", "ann", "6", time.Hour)
		m.End()
		m.Keep("a", "ann", "7", time.Hour)
		expect("at the end", "a 6", "a 7")
		time.Sleep(2 * time.Hour)
		expect("later")
	})
}

// Too many leave at once.
func TestMost(t *testing.T) {
	left := 0
	m := linger.Members{Leave: func(string, string) { left++ }}
	for i := range linger.Most {
		m.Keep("a", fmt.Sprint(i), fmt.Sprint(i), time.Hour)
	}
	m.Keep("a", "late", "late", time.Hour)
	if left != 1 {
		t.Errorf("%d have left at once", left)
	}
	m.Back("a", "7")
	m.Keep("a", "late", "late", time.Hour)
	if left != 2 {
		t.Errorf("%d have left, and there is room", left)
	}
	if m.End(); left != linger.Most+2 {
		t.Errorf("%d have left at the end", left)
	}
}
