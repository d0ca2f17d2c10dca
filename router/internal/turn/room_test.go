package turn

import (
	"testing"
	"testing/synctest"
)

// A reader that waits for room goes on when there is some, whatever made it.
func TestTheReaderIsWoken(t *testing.T) {
	type M = message
	for name, tc := range map[string]struct {
		comes Task[M] // while one of 6 bytes is handled by the worker and one of 1 byte waits
		room  func(turn *Turn[M], handled, waits *M)
	}{
		"Finish":         {Task[M]{Size: 6, Request: true, Concurrent: true}, func(turn *Turn[M], handled, _ *M) { turn.Finish(&handled.task) }},
		"Next":           {Task[M]{}, func(turn *Turn[M], handled, _ *M) { turn.Next() }},
		"Next, request":  {Task[M]{Request: true}, func(turn *Turn[M], _, _ *M) { turn.Next() }},
		"Abort":          {Task[M]{}, func(turn *Turn[M], _, waits *M) { turn.Abort(&waits.task) }},
		"Stop":           {Task[M]{}, func(turn *Turn[M], _, _ *M) { turn.Stop() }},
		"Stop, too much": {Task[M]{Size: 6}, func(turn *Turn[M], _, _ *M) { turn.Stop() }},
		"Refused":        {Task[M]{}, func(turn *Turn[M], _, _ *M) { turn.NeedReader(1) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var turn Turn[M]
				turn.Init(&Rules[M]{MaxInFlight: 1, MaxPending: 8, Opened: func(*M) {}})
				handled, waits, comes := &M{task: Task[M]{Size: 6}}, &M{task: Task[M]{Size: 1}}, &M{task: tc.comes}
				turn.Begin(&handled.task)
				turn.Look()
				if seen, _ := turn.Look(); seen != TakenOver {
					t.Fatal("the handler is not detached")
				}
				turn.Begin(&waits.task)
				begun := false
				go func() { turn.Begin(&comes.task); begun = true }()
				if synctest.Wait(); begun {
					t.Fatal("there was room")
				}
				tc.room(&turn, handled, waits)
				if synctest.Wait(); !begun {
					turn.Stop()
					t.Error("the reader still waits")
				}
			})
		})
	}
}

// A reader that waits for events goes on when the last is finished, and requests may go on.
func TestTheReaderAwaitsEvents(t *testing.T) {
	type M = message
	for _, stop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var turn Turn[M]
			turn.Init(&Rules[M]{MaxInFlight: 2, MaxPending: 8, Opened: func(*M) {}})
			request, event := &M{task: Task[M]{Request: true, Concurrent: true}}, &M{task: Task[M]{Concurrent: true}}
			turn.Begin(&request.task)
			turn.AwaitEvents() // there are none
			turn.Begin(&event.task)
			over := false
			go func() { turn.AwaitEvents(); over = true }()
			if synctest.Wait(); over {
				t.Fatal("an event is open")
			}
			if stop {
				turn.Stop()
			} else {
				turn.Finish(&event.task)
			}
			if synctest.Wait(); !over {
				turn.Stop()
				t.Error("it still waits")
			}
		})
	}
}
