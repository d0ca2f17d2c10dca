package dedupe

import (
	"bytes"
	"slices"
)

// inOrder returns a JSON value in which the members of each object are ordered by their names. The value is valid, and
// without white space. Beside what it takes to sort the members of each object, the time is linear in the size of
// the value, however deep that is: jsontext.ReorderRawObjects moves the innermost members once for each level.
func inOrder(value []byte) []byte {
	o := orderer{text: value}
	o.value(0)
	if len(o.objects) == 0 {
		return value
	}
	return o.append(make([]byte, 0, len(value)), 0, len(value), 0)
}

// orderer has what is not in order in a text.
type orderer struct {
	text    []byte
	objects []object // those out of order and those around them, by where they begin
	members []member // of objects that are out of order, each object's in order
	open    []member // of objects that have not ended, the innermost last
}

type object struct {
	start, end  int // of its braces
	after       int // the index of the next object that is not part of it
	first, last int // its members; none: it is in order
}

type member struct {
	start, colon, end int
	object            int // the index of the next object
}

func (m member) name(text []byte) []byte { return text[m.start+1 : m.colon-1] }

// value finds what is not in order in a value, and returns the place behind it.
func (o *orderer) value(at int) int {
	switch o.text[at] {
	case '{':
		return o.object(at)
	case '[':
		at++
		for o.text[at] != ']' {
			if at = o.value(at); o.text[at] == ',' {
				at++
			}
		}
		return at + 1
	case '"':
		for at++; o.text[at] != '"'; at++ {
			if o.text[at] == '\\' {
				at++
			}
		}
		return at + 1
	}
	if n := bytes.IndexAny(o.text[at:], ",]}"); n >= 0 {
		return at + n
	}
	return len(o.text)
}

func (o *orderer) object(at int) int {
	self, first := len(o.objects), len(o.open)
	o.objects = append(o.objects, object{start: at})
	at++
	for o.text[at] != '}' {
		m := member{start: at, object: len(o.objects)}
		m.colon = o.value(at)
		m.end = o.value(m.colon + 1)
		o.open = append(o.open, m)
		if at = m.end; o.text[at] == ',' {
			at++
		}
	}
	own := o.open[first:]
	byName := func(a, b member) int { return bytes.Compare(a.name(o.text), b.name(o.text)) }
	x := &o.objects[self]
	switch {
	case !slices.IsSortedFunc(own, byName):
		slices.SortFunc(own, byName)
		x.first = len(o.members)
		o.members = append(o.members, own...)
		x.last = len(o.members)
	case len(o.objects) == self+1:
		o.objects = o.objects[:self]
	}
	x.end, x.after = at, len(o.objects)
	o.open = o.open[:first]
	return at + 1
}

// append appends a part of the text in order. next is the index of the first object that begins in it.
func (o *orderer) append(b []byte, from, to, next int) []byte {
	for next < len(o.objects) && o.objects[next].start < to {
		x := o.objects[next]
		if x.first == x.last {
			next++
			continue
		}
		b = append(b, o.text[from:x.start+1]...)
		for i, m := range o.members[x.first:x.last] {
			if i > 0 {
				b = append(b, ',')
			}
			b = o.append(b, m.start, m.end, m.object)
		}
		from, next = x.end, x.after
	}
	return append(b, o.text[from:to]...)
}
