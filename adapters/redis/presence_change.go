package redis

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/wskit/wskit/pubsub"
)

// A change is published as the topic's epoch, a space, the change's number, '!' if the epoch
// ends with it, a line feed, and what has changed: the number of members that are gone as a uvarint and their IDs, and
// the members that are there, each as its ID and its value. Each text stands after its length
// as a uvarint. Nothing behind the line feed means that the list is to be read again.
type change struct {
	version
	last    bool // of its epoch: the topic has no members any more
	changed string
}

// version names a state of a topic: each change makes the next number. An epoch lasts while the
// topic has members, or until Redis has lost it. The zero version is a topic without
// members.
type version struct {
	epoch  string
	number int64
}

func encodeChange(gone, there []any) []byte {
	b := binary.AppendUvarint(nil, uint64(len(gone)))
	for _, text := range append(gone[:len(gone):len(gone)], there...) {
		switch text := text.(type) {
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		case []byte:
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	return b
}

func decodeChange(frame string) (c change, ok bool) {
	head, changed, ok := strings.Cut(frame, "\n")
	if !ok {
		return c, false
	}
	epoch, number, ok := strings.Cut(head, " ")
	number, last := strings.CutSuffix(number, "!")
	c = change{version{epoch: epoch}, last, changed}
	var err error
	c.number, err = strconv.ParseInt(number, 10, 64)
	return c, ok && err == nil
}

// report is what has changed. ignored is how many entries are no members.
func (c change) report() (r pubsub.PresenceReport, ignored int64, ok bool) {
	head := []byte(c.changed[:min(len(c.changed), binary.MaxVarintLen32)])
	n, width := binary.Uvarint(head)
	if width <= 0 || n > uint64(len(c.changed)) {
		return r, 0, false
	}
	rest := c.changed[width:]
	var id, value string
	for range n {
		if id, rest, ok = cutLabel(rest); !ok {
			return r, 0, false
		}
		r.Left = append(r.Left, id)
	}
	for rest != "" {
		if id, rest, ok = cutLabel(rest); !ok {
			return r, 0, false
		}
		if value, rest, ok = cutLabel(rest); !ok {
			return r, 0, false
		}
		if m, ok := decodeMember(id, value); ok {
			r.Present = append(r.Present, m)
		} else {
			ignored++
		}
	}
	return r, ignored, true
}
