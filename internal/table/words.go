package table

// words are the states of a shard whose entries vary in length. The slot of an entry has
// the index of its slice, so that slots have a fixed size, as in other tables.
type words struct {
	space *Space
	all   [][]int64
	free  []int32
}

// take stores a copy of state and returns its index.
func (w *words) take(state []int64) int64 {
	n := len(w.all)
	if f := len(w.free); f > 0 {
		n, w.free = int(w.free[f-1]), w.free[:f-1]
	} else {
		w.all = append(w.all, nil)
	}
	w.all[n] = append([]int64(nil), state...)
	w.space.used.Add(weight(cap(w.all[n])))
	return int64(n)
}

// release frees a slice.
func (w *words) release(n int64) {
	w.space.used.Add(-weight(cap(w.all[n])))
	w.all[n] = nil
	w.free = append(w.free, int32(n))
}

// Words is [Ref.State] in a table of variable states, and nil in any other.
func (r Ref) Words() []int64 {
	if r.slot == nil || r.shard.words == nil {
		return nil
	}
	return r.shard.words.all[r.slot[head]]
}

// SetWords stores a changed state of Words. It returns false if the state has grown beyond
// the capacity of the table; the state is stored in this case, too.
func (r Ref) SetWords(state []int64) bool {
	w := r.shard.words
	n := r.slot[head]
	more := weight(cap(state)) - weight(cap(w.all[n]))
	w.all[n] = state
	return more == 0 || w.space.used.Add(more) <= w.space.max || more < 0
}

// InsertWords is [Table.Insert] in a table of variable states. It stores a copy of state.
func (t *Table) InsertWords(r Ref, h Hash, state []int64, expires, now int64) bool {
	slot := [1]int64{-1}
	if !t.insert(r.shard, h, slot[:], expires, now) {
		return false
	}
	run := r.shard.run.Load()
	run.slots[run.find(h, t.stride)+head] = r.shard.words.take(state)
	return true
}
