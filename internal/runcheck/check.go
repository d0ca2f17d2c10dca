package runcheck

import (
	"fmt"
	"strings"
)

// round is a run and what its clients have seen of it.
type round struct {
	id, typ  string
	most     int
	loss     bool            // the backend may have lost a part
	devices  []seen          // of those that watched it, the last client of each
	earlier  []string        // texts of clients that were closed before the end
	later    []seen          // of clients that attached when it had ended
	messages map[string]fate // that were given to it
	stop     bool            // it was asked to stop
	stopped  []string        // the answers: how it has ended
}

// fate is what the sender of a message knows of it.
type fate string

const (
	taken   fate = "messages taken"
	refused fate = "messages refused"
	unknown fate = "messages without an answer"
)

// seen is what a client has seen of a run.
type seen struct {
	text   string
	end    string // the state, and the code of a failure; empty: there is no such run
	result string
}

// state is how a run has ended, for the report.
func (s seen) state() string {
	if s.end == "" {
		return "gone"
	}
	return s.end
}

func (o *round) String() string {
	return fmt.Sprintf("%s %s up to %d: devices %+v, earlier %q, later %+v, messages %v, stopped %v %v, loss %v",
		o.typ, o.id, o.most, o.devices, o.earlier, o.later, o.messages, o.stop, o.stopped, o.loss)
}

// check returns what was promised and is not so.
func (o *round) check() (broken []string) {
	wrong := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	last := o.later[0]
	for _, s := range o.later {
		if s != last {
			wrong("clients that come later differ")
		}
	}
	for _, s := range o.devices {
		switch {
		case !o.loss && s != last:
			wrong("a device has seen another run")
		case !continues(s.text, last.text):
			wrong("a device has seen another text")
		}
	}
	for _, text := range o.earlier {
		if !continues(text, last.text) || !o.loss && o.typ == "count" && !strings.HasPrefix(last.text, text) {
			wrong("what was seen before a reload is not how the text begins")
		}
	}
	if last.end == "" && !o.loss {
		wrong("the run is gone")
	}
	words, got := parse(last.text)
	if words < 0 {
		wrong("the text is not what was written")
	}
	switch last.end {
	case "done":
		if words != o.most || last.result != fmt.Sprint(o.most) {
			wrong("the run is done with a part of its text")
		}
	case "stopped":
		if !o.stop {
			wrong("the run is stopped, and was not asked to")
		}
	case "lost", "failed UNAVAILABLE", "": // its process was killed, or the backend, for longer than it tries again
	default:
		wrong("the run has ended as %s", last.end)
	}
	for _, end := range o.stopped {
		if !o.loss && end != last.end {
			wrong("the answer to a stop says %q", end)
		}
	}
	for message, fate := range o.messages {
		most := 1
		if fate == refused {
			most = 0
		}
		if n := got[message]; n > most || n < most && fate == taken && last.end == "done" && !o.loss {
			wrong("message %s is %d times in the text; %s", message, n, fate)
		}
	}
	return broken
}

// continues reports whether one text begins with the other.
func continues(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// parse returns how many numbers a text has, or -1 if they are not those from 0 on, and how often each message.
func parse(text string) (words int, messages map[string]int) {
	messages = make(map[string]int)
	for _, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "<") {
			messages[strings.Trim(word, "<>")]++
			continue
		}
		if word != fmt.Sprint(words) {
			return -1, messages
		}
		words++
	}
	return words, messages
}
