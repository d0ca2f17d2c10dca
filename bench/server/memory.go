package server

import (
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/debug"
)

// Memory is what /debug/mem answers: bytes in use after a garbage collection.
type Memory struct {
	HeapAlloc  uint64 // objects alone
	HeapInuse  uint64
	StackInuse uint64
	Sys        uint64
	Mallocs    uint64 // allocations since the process began
}

// serveMemory collects twice, because the first collection only moves the contents
// of a sync.Pool to its victim cache and the second one frees them: pooled buffers
// are not what an idle connection costs. With ?release the freed pages go back to the
// kernel as well, which a resting server does by itself within minutes.
func serveMemory(w http.ResponseWriter, r *http.Request) {
	runtime.GC()
	runtime.GC()
	if r.URL.Query().Has("release") {
		debug.FreeOSMemory()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.Header().Set("Content-Type", "application/json")
	// The client is the comparison on the same machine; a failed write shows there.
	_ = json.NewEncoder(w).Encode(Memory{HeapAlloc: m.HeapAlloc, HeapInuse: m.HeapInuse, StackInuse: m.StackInuse, Sys: m.Sys, Mallocs: m.Mallocs})
}
