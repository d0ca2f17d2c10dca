package main

import (
	"bytes"
	"fmt"
	"text/template"
	"time"
)

// The layout, in pixels: a row for what came, one for what went through, and a
// scale of seconds.
const (
	width, height = 720, 132
	left, right   = 92, 12
	cameRow       = 30
	wentRow       = 74
	tick          = 26 // length of a request's line
	scaleRow      = 116
)

var picture = template.Must(template.New("svg").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-label="{{.Title}}">
<style>
text { font: 12px system-ui, sans-serif; fill: #57606a }
.grid { stroke: #d0d7de } .window { stroke: #8c959f; stroke-dasharray: 3 3 }
.yes { stroke: #0969da } .no { stroke: #cf222e; stroke-opacity: .55 } .held { stroke: #0969da; stroke-opacity: .3 }
.yes, .no { stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #8b949e } .grid { stroke: #30363d } .window { stroke: #6e7681 }
.yes, .held { stroke: #58a6ff } .no { stroke: #f85149 }
}
</style>
<text x="0" y="14">{{.Title}}</text>
<text x="0" y="{{.CameText}}">came</text>
<text x="0" y="{{.WentText}}">went through</text>
{{range .Seconds}}<line class="{{.Class}}" x1="{{.X}}" x2="{{.X}}" y1="{{$.Top}}" y2="{{$.Bottom}}"/>{{if .Label}}<text x="{{.X}}" y="{{$.ScaleText}}" text-anchor="middle">{{.Label}}</text>{{end}}
{{end}}{{range .Lines}}<line class="{{.Class}}" x1="{{.X1}}" x2="{{.X2}}" y1="{{.Y1}}" y2="{{.Y2}}"/>
{{end}}</svg>
`))

type mark struct{ Class, X, Label string }

type line struct{ Class, X1, X2, Y1, Y2 string }

// draw makes the picture of a policy.
func draw(s subject) ([]byte, error) {
	all, err := run(s.policy)
	if err != nil {
		return nil, err
	}
	admitted := 0
	var lines []line
	for _, r := range all {
		came, went := x(r.at), x(r.at+r.wait)
		class := "no"
		if r.admitted {
			admitted++
			class = "yes"
			lines = append(lines, line{"yes", went, went, y(wentRow), y(wentRow + tick)})
		}
		if r.wait > 0 {
			lines = append(lines, line{"held", came, went, y(cameRow + tick), y(wentRow)})
		}
		lines = append(lines, line{class, came, came, y(cameRow), y(cameRow + tick)})
	}
	var seconds []mark
	for t := time.Duration(0); t <= span; t += time.Second {
		m := mark{Class: "grid", X: x(t)}
		if t%(4*time.Second) == 0 {
			m.Class, m.Label = "window", fmt.Sprintf("%d s", int(t.Seconds()))
		}
		seconds = append(seconds, m)
	}
	var out bytes.Buffer
	err = picture.Execute(&out, map[string]any{
		"Width": width, "Height": height, "Lines": lines, "Seconds": seconds,
		"Top": cameRow, "Bottom": wentRow + tick,
		"CameText": cameRow + 18, "WentText": wentRow + 18, "ScaleText": scaleRow,
		"Title": fmt.Sprintf("%v: %d of %d went through, at most %d in any 4 s",
			s.policy, admitted, len(all), busiest(all, 4*time.Second)),
	})
	return out.Bytes(), err
}

// x is where an instant stands.
func x(t time.Duration) string {
	return fmt.Sprintf("%.1f", left+float64(t)/float64(span)*(width-left-right))
}

func y(row int) string { return fmt.Sprint(row) }
