package runcheck

import (
	"slices"
	"testing"
)

// good is a run that keeps all promises, with two messages.
func good() *round {
	s := seen{text: "0 <1> 1 2 ", end: "done", result: "3"}
	return &round{
		id: "x", typ: "count", most: 3, devices: []seen{s, s}, earlier: []string{"", "0 <1> "}, later: []seen{s, s, s},
		messages: map[string]fate{"1": taken, "2": refused},
	}
}

// all changes what all clients have seen.
func (o *round) all(change func(*seen)) {
	for _, list := range [][]seen{o.devices, o.later} {
		for i := range list {
			change(&list[i])
		}
	}
}

// Each fault is found, and the rounds that differ from it only where they may are not.
func TestCheck(t *testing.T) {
	for what, test := range map[string]struct {
		change func(o *round)
		want   string // empty: nothing is wrong
	}{
		"nothing": {func(*round) {}, ""},
		"a word is missing": {
			func(o *round) { o.all(func(s *seen) { s.text = "0 <1> 2 " }) }, "the text is not what was written",
		},
		"a word comes twice": {
			func(o *round) { o.all(func(s *seen) { s.text = "0 <1> 1 1 2 " }) }, "the text is not what was written",
		},
		"the end is missing": {
			func(o *round) { o.all(func(s *seen) { s.text = "0 <1> 1 " }) }, "the run is done with a part of its text",
		},
		"a device has less": {
			func(o *round) { o.devices[1].text = "0 <1> " }, "a device has seen another run",
		},
		"a device has another end": {
			func(o *round) { o.devices[1].end = "lost" }, "a device has seen another run",
		},
		"a device has more of what was lost": {func(o *round) {
			o.loss = true
			for i := range o.later {
				o.later[i] = seen{text: "0 ", end: "lost"}
			}
		}, ""},
		"a device has another text than is left": {
			func(o *round) { o.loss, o.devices[1].text = true, "0 1 2 " }, "a device has seen another text",
		},
		"clients that come later have another end": {
			func(o *round) { o.loss, o.later[2].end = true, "lost" }, "clients that come later differ",
		},
		"a reload begins anew with another text": {
			func(o *round) { o.earlier[1] = "0 1 " }, "what was seen before a reload is not how the text begins",
		},
		"the text becomes shorter": {func(o *round) {
			o.stop, o.earlier[1] = true, "0 <1> 1 2 "
			o.all(func(s *seen) { s.text, s.end = "0 <1> 1 ", "stopped" })
		}, "what was seen before a reload is not how the text begins"},
		"a message is twice in the text": {
			func(o *round) { o.all(func(s *seen) { s.text = "0 <1> 1 <1> 2 " }) }, "message 1 is 2 times in the text; messages taken",
		},
		"a message that was taken is missing": {
			func(o *round) { o.messages["3"] = taken }, "message 3 is 0 times in the text; messages taken",
		},
		"a message that was refused is taken": {
			func(o *round) { o.messages["1"] = refused }, "message 1 is 1 times in the text; messages refused",
		},
		"a message without an answer":         {func(o *round) { o.messages["1"], o.messages["4"] = unknown, unknown }, ""},
		"a stop is answered with the end":     {func(o *round) { o.stop, o.stopped = true, []string{"done"} }, ""},
		"a stop is answered with another end": {func(o *round) { o.stop, o.stopped = true, []string{"stopped"} }, `the answer to a stop says "stopped"`},
		"it stops by itself": {
			func(o *round) { o.all(func(s *seen) { s.end = "stopped" }) }, "the run is stopped, and was not asked to",
		},
		"it fails":   {func(o *round) { o.all(func(s *seen) { s.end = "failed INTERNAL" }) }, "the run has ended as failed INTERNAL"},
		"it is gone": {func(o *round) { o.all(func(s *seen) { *s = seen{} }) }, "the run is gone"},
		"it is gone where everything may be": {
			func(o *round) { o.loss, o.later = true, make([]seen, 3) }, "",
		},
	} {
		o := good()
		test.change(o)
		got := o.check()
		if test.want == "" && len(got) > 0 || test.want != "" && !slices.Contains(got, test.want) {
			t.Errorf("%s: the check says %q, want %q", what, got, test.want)
		}
	}
}
