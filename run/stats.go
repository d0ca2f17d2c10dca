package run

import (
	"cmp"
	"maps"
	"slices"
)

// Stats are figures of this process since the Runs were made.
type Stats struct {
	// Running is how many runs go on here now.
	Running int64
	// Types are the runs by the type of the request that begins them, in the order of the types. The last one has no
	// Type, and counts the runs of types that are not registered here: those of other processes that are lost.
	Types []TypeStats
}

// TypeStats are figures of the runs of one type.
type TypeStats struct {
	// Type is that of the request, or "".
	Type string
	// Begun is how many were begun here.
	Begun int64
	// Restarted is how many were begun here again.
	Restarted int64
	// Ends are how many have ended, by the states. The Lost ones are those of all processes that this one has found:
	// over all processes each counts once.
	Ends map[State]int64
}

// count changes the figures of a type, which is that of Handle or comes from the history.
func (rs *Runs) count(typ string, change func(t *TypeStats)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	change(cmp.Or(rs.types[typ], rs.types[""]))
}

// ended counts an end.
func (t *TypeStats) ended(s State) { t.Ends[s]++ }

// newTypeStats are the figures of a type: its ends are there from the beginning, for graphs.
func newTypeStats(typ string) *TypeStats {
	return &TypeStats{Type: typ, Ends: map[State]int64{Done: 0, Failed: 0, Stopped: 0, Lost: 0}}
}

// Stats returns the figures of this process.
func (rs *Runs) Stats() Stats {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := Stats{Running: int64(len(rs.here))}
	for _, typ := range slices.Sorted(maps.Keys(rs.types)) {
		t := *rs.types[typ]
		t.Ends = maps.Clone(t.Ends)
		s.Types = append(s.Types, t)
	}
	s.Types = append(s.Types[1:], s.Types[0]) // "" is the first one
	return s
}

// Here returns the runs that go on in this process, the oldest first.
func (rs *Runs) Here() []Info {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := make([]Info, 0, len(rs.here))
	for _, w := range rs.here {
		list = append(list, w.info)
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.ID, b.ID)) })
	return list
}
