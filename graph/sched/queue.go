package sched

import "cmp"

// queue has the ready vertices of one class: a binary heap whose first entry is popped next. Each vertex knows its
// index in it, so that any one can be removed or moved up. Entries contain the priority, so that a comparison need not
// read the vertex.
type queue []entry

type entry struct {
	priority float64
	vertex   int32
}

// before orders by priority, then by vertex, so that no two entries are equal and the order is reproducible.
func (e entry) before(o entry) bool {
	return e.priority > o.priority || e.priority == o.priority && e.vertex < o.vertex
}

// compare is before for sorting.
func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(o.priority, e.priority), cmp.Compare(e.vertex, o.vertex))
}

func (q *queue) push(vertices []vertex, e entry) {
	*q = append(*q, e)
	q.rise(vertices, int32(len(*q)-1), e)
}

func (q *queue) remove(vertices []vertex, index int32) {
	last := int32(len(*q) - 1)
	moved := (*q)[last]
	*q = (*q)[:last]
	if index == last {
		return
	}
	if index > 0 && moved.before((*q)[(index-1)/2]) {
		q.rise(vertices, index, moved)
	} else {
		q.sink(vertices, index, moved)
	}
}

// rise puts e at index, or above it.
func (q queue) rise(vertices []vertex, index int32, e entry) {
	for index > 0 {
		parent := (index - 1) / 2
		if !e.before(q[parent]) {
			break
		}
		q.put(vertices, index, q[parent])
		index = parent
	}
	q.put(vertices, index, e)
}

// sink puts e at index, or below it.
func (q queue) sink(vertices []vertex, index int32, e entry) {
	for {
		child := 2*index + 1
		if child >= int32(len(q)) {
			break
		}
		if child+1 < int32(len(q)) && q[child+1].before(q[child]) {
			child++
		}
		if !q[child].before(e) {
			break
		}
		q.put(vertices, index, q[child])
		index = child
	}
	q.put(vertices, index, e)
}

func (q queue) put(vertices []vertex, index int32, e entry) {
	q[index] = e
	vertices[e.vertex].index = index
}
