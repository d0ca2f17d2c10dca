package server

import (
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"
)

// Locks is what /debug/locks answers: how long goroutines have waited for locks since the process began, and for
// which, if that is recorded.
type Locks struct {
	Waited time.Duration
	By     map[string]float64 // time by the function that held the lock, in units of the processor's clock
}

func serveLocks(w http.ResponseWriter, _ *http.Request) {
	total := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(total)
	locks := Locks{
		Waited: time.Duration(total[0].Value.Float64() * float64(time.Second)),
		By:     make(map[string]float64),
	}
	records := make([]runtime.BlockProfileRecord, 10_000)
	n, ok := runtime.MutexProfile(records)
	if !ok {
		http.Error(w, "too many stacks", http.StatusInternalServerError)
		return
	}
	for _, r := range records[:n] {
		locks.By[holder(r.Stack())] += float64(r.Cycles)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(locks) // a failed write shows at the client
}

// Wskit is how the names of its functions begin.
const Wskit = "github.com/wskit/wskit/"

// holder is the function that has unlocked: wskit's where there is one, or the first.
func holder(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	name := ""
	for {
		f, more := frames.Next()
		if name == "" && strings.HasPrefix(f.Function, "runtime.") {
			return "the runtime" // a lock of its own, whatever was called
		}
		if strings.HasPrefix(f.Function, Wskit) && !strings.HasPrefix(f.Function, Wskit+"bench/") {
			return f.Function
		}
		if name == "" {
			name = f.Function
		}
		if !more {
			return name
		}
	}
}
