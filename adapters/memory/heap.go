package memory

// ordered is an item of a priority queue. It has its place in it.
type ordered[T any] interface {
	before(other T) bool
	moveTo(place int)
}

// priorityQueue has the first of its items at place 0. It is for container/heap.
type priorityQueue[T ordered[T]] []T

func (q priorityQueue[T]) Len() int           { return len(q) }
func (q priorityQueue[T]) Less(i, j int) bool { return q[i].before(q[j]) }
func (q priorityQueue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].moveTo(i)
	q[j].moveTo(j)
}

func (q *priorityQueue[T]) Push(x any) {
	item := x.(T)
	item.moveTo(len(*q))
	*q = append(*q, item)
}

func (q *priorityQueue[T]) Pop() any {
	var none T
	last := len(*q) - 1
	item := (*q)[last]
	(*q)[last] = none
	*q = (*q)[:last]
	return item
}
