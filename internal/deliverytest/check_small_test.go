package deliverytest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wskit/wskit/internal/deliverytest"
)

// small makes a recording from lines. Times are those of the lines.
//
//	publish ID [OUTCOME]   begins a publish
//	done ID                ends it
//	CLIENT joined POS      and resumed, reset REASON POS, denied, left, settled
//	CLIENT ID...           received these; ID@POS with another position than ID
//	lose ID                the store may have lost what was published since ID
func small(text string) (events []deliverytest.Event) {
	pending := make(map[string]deliverytest.Event)
	begun := make(map[string]int64)
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		at := int64(i + 1)
		add := func(e deliverytest.Event) {
			e.At = at
			if e.Kind != deliverytest.MayLose {
				e.Topic = "t"
			}
			events = append(events, e)
		}
		f := strings.Fields(line)
		client := deliverytest.Event{Client: f[0]}
		switch f[0] {
		case "publish":
			e := deliverytest.Event{Kind: deliverytest.Published, ID: f[1], Outcome: deliverytest.Acked, Begun: at}
			if len(f) > 2 {
				e.Outcome = deliverytest.Outcome(f[2])
			}
			pending[f[1]], begun[f[1]] = e, at
			continue
		case "done":
			add(pending[f[1]])
			continue
		case "lose":
			add(deliverytest.Event{Kind: deliverytest.MayLose, Begun: begun[f[1]]})
			continue
		}
		switch client.Kind = deliverytest.Kind(f[1]); client.Kind {
		case deliverytest.Joined:
			client.Pos = f[2]
			add(client)
		case deliverytest.Reset:
			client.Reason, client.Pos = f[2], f[3]
			add(client)
		case deliverytest.Resumed:
			client.OK = true
			add(client)
		case deliverytest.Denied:
			client.Kind, client.Reason = deliverytest.Resumed, deliverytest.Denied
			add(client)
		case deliverytest.Left, deliverytest.Settled:
			add(client)
		default:
			client.Kind = deliverytest.Received
			for _, id := range f[1:] {
				var ok bool
				if client.ID, client.Pos, ok = strings.Cut(id, "@"); !ok {
					client.Pos = id
				}
				add(client)
			}
		}
	}
	return events
}

const threePublished = `
X joined 0
Y joined 0
publish a
done a
publish b
done b
publish c
done c
`

func TestSmallRecordings(t *testing.T) {
	for name, test := range map[string]struct {
		recording  string
		violations []string
	}{
		"all received":         {recording: threePublished + "X a b c\nY a b c\nX settled\nY settled"},
		"resumed in between":   {recording: threePublished + "X a\nX resumed\nX b c\nY a b c\nX settled\nY settled"},
		"reset before a gap":   {recording: threePublished + "X a\nX reset trimmed b\nX c\nY a b c\nX settled\nY settled"},
		"a client that is off": {recording: threePublished + "X a b c\nX settled"},
		"joined in the middle": {recording: threePublished + "Z joined b\nX a b c\nY a b c\nX settled\nY settled\nZ settled"},
		"unknown and lost":     {recording: "X joined 0\npublish a unknown\npublish b\ndone a\ndone b\nX b\nX settled"},
		"the other order at both, when both were published at once": {recording: "X joined 0\nY joined 0\npublish a\npublish b\ndone a\ndone b\nX b a\nY b a\nX settled\nY settled"},
		"lost by the store, and reported":                           {recording: "X joined 0\nY joined 0\npublish a\ndone a\npublish b\ndone b\nX a b\nlose b\nX reset rewound a\nY a\npublish c\ndone c\nX c\nY c\nX settled\nY settled"},
		"one missed": {threePublished + "X a c\nY a b c\nX settled\nY settled", []string{
			`topic "t": directly after "a", Y received "b", and X received "c": one of them missed a message`,
			`topic "t": Y received "c" directly after "b", and X directly after "a": one of them missed a message`,
			`{X t}: missed "b", which was published after it joined`,
		}},
		"one missed by both": {threePublished + "X a c\nY a c\nX settled\nY settled", []string{
			`{X t}: missed "b", which was published after it joined`, `{Y t}: missed "b", which was published after it joined`,
		}},
		"one missed, of unknown outcome": {"X joined 0\nY joined 0\npublish a unknown\npublish b\ndone a\ndone b\nX a b\nY b", []string{
			`topic "t": Y received "b" directly after the position "0", and X directly after "a": one of them missed a message`,
		}},
		"two ends": {"X joined 0\nY joined 0\npublish a unknown\npublish b unknown\ndone a\ndone b\nX a\nY b", []string{
			`topic "t": directly after the position "0", Y received "b", and X received "a": one of them missed a message`,
		}},
		"the first missed": {threePublished + "X b c", []string{`{X t}: missed "a", which was published after it joined`}},
		"the last missed":  {threePublished + "X a b\nX settled", []string{`{X t}: missed "c", which was published after it joined`}},
		"the last missed, of unknown outcome": {"X joined 0\nY joined 0\npublish a\ndone a\npublish b unknown\ndone b\nX a\nY a b\nX settled\nY settled", []string{
			`topic "t": at the end Y has received everything up to "b", and X up to "a"`,
		}},
		"missed after a reset": {"X joined 0\npublish a\ndone a\nX a\nX reset epoch 9\npublish b\ndone b\npublish c\ndone c\nX c", []string{
			`{X t}: missed "b", which was published after it joined`,
		}},
		"twice":                 {threePublished + "X a b b c", []string{`{X t}: received "b" twice`}},
		"twice, after resuming": {threePublished + "X a b\nX resumed\nX b c", []string{`{X t}: received "b" twice`}},
		"twice, after trimming": {threePublished + "X a b\nX reset trimmed a\nX b c", []string{
			`{X t}: received "b" twice, at b and at b, the second time after a reset that does not explain it`,
		}},
		"twice, lost by the store and published again": {recording: "X joined 0\npublish b\nX b\nlose b\nX reset trimmed 9\nX b@10\ndone b"},
		"twice, at the position that the store lost": {"X joined 0\npublish b\nX b\nlose b\nX reset trimmed 0\nX b\ndone b", []string{
			`{X t}: received "b" twice, at b and at b, the second time after a reset that does not explain it`,
		}},
		"twice, at two positions, and lost before": {"X joined 0\npublish a\nlose a\ndone a\npublish b\nX b\nX reset trimmed 9\nX b@10\ndone b", []string{
			`{X t}: received "b" twice, at b and at 10, the second time after a reset that does not explain it`,
		}},
		"in different orders": {"X joined 1\nY joined 2\npublish a unknown\npublish b unknown\ndone a\ndone b\nX a b\nY b a", []string{
			`topic "t": Y received "b" directly after the position "2", and X directly after "a": one of them missed a message`,
			`topic "t": Y received "a" directly after "b", and X directly after the position "1": one of them missed a message`,
		}},
		"later first": {threePublished + "X b a c", []string{`{X t}: received "a" after "b", which was published later`}},
		"lost by the store, and not reported": {"X joined 0\nY joined 0\npublish a\ndone a\npublish b\ndone b\nX a b\nlose b\nY a\npublish c\ndone c\nX c\nY c", []string{
			`topic "t": Y received "c" directly after "a", and X directly after "b": one of them missed a message`,
		}},
		"later first, lost by the store and published again": {recording: "X joined 0\npublish a\nlose a\ndone a\npublish b\ndone b\nX b a"},
		"later first, and another was lost": {"X joined 0\npublish a\ndone a\npublish b\nlose b\ndone b\nX b a", []string{
			`{X t}: received "a" after "b", which was published later`,
		}},
		"lost outside of the time": {"X joined 0\npublish a\ndone a\npublish b\nlose b\ndone b\npublish c\ndone c\nX b c", []string{
			`{X t}: missed "a", which was published after it joined`,
		}},
		"failed":        {"X joined 0\npublish a failed\ndone a\nX a", []string{`{X t}: received "a", whose publishing failed`}},
		"not published": {"X joined 0\nX a", []string{`{X t}: received "a", which was not published`}},
		"too early":     {"X joined 0\nX a\npublish a\ndone a", []string{`{X t}: received "a" before it was published`}},
		"no member":     {"publish a\ndone a\nX a", []string{`{X t}: received "a", and is no member`}},
		"left":          {"X joined 0\nX left\npublish a\ndone a\nX a", []string{`{X t}: received "a", and is no member`}},
		"denied":        {"X joined 0\nX denied\npublish a\ndone a\nX a", []string{`{X t}: received "a", and is no member`}},
		"not joined":    {"X resumed", []string{`{X t}: resumed without having joined`}},
		"two positions": {threePublished + "X a b c@1\nY a b c@2", []string{
			`topic "t": directly after "b", Y received "c", and X received "c": one of them missed a message`,
			`topic "t": "c" has the positions "1" and "2"`,
		}},
		"no position": {threePublished + "X a@ b c", []string{
			`{X t}: received "a" without a position`,
			`{X t}: missed "a", which was published after it joined`,
		}},
		"one for two": {threePublished + "X a@1 b@1 c", []string{
			`topic "t": "a" and "b" have the same position`,
			`topic "t": X received "b" directly after "b", and X directly after the position "0": one of them missed a message`,
		}},
		"published twice": {"publish a\ndone a\ndone a", []string{`topic "t": the publishing of "a" is recorded twice`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := deliverytest.Check(small(test.recording)).Violations
			if !slices.Equal(got, test.violations) {
				t.Errorf("violations:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(test.violations, "\n"))
			}
		})
	}
	r := deliverytest.Check(small("X joined 0\npublish a\ndone a\nlose a\nX denied"))
	if text := fmt.Sprint(r); text != "published 1 acked, 0 failed, 0 unknown; received 0; resumed 0; reset denied 1; lost by the store 0; violations 0\n" {
		t.Error(text)
	}
}
