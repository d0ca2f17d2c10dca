package main

import (
	"bytes"
	"fmt"
	"text/template"
)

// A chart has groups of horizontal bars, to one scale.
type chart struct {
	name, title string
	groups      []group
}

type group struct {
	title string
	bars  []bar
}

// A bar is as long as its number, with the text behind it.
type bar struct {
	name   string
	number float64
	text   string
	ours   bool
}

// The layout, in pixels.
const (
	chartWidth  = 720
	barsFrom    = 150 // the names are before
	barsTo      = 620 // the texts are behind
	barHeight   = 14
	barStep     = 19
	groupHead   = 26
	titleHeight = 24
)

var barsTemplate = template.Must(template.New("svg").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-label="{{.Title}}">
<style>
text { font: 12px system-ui, sans-serif; fill: #57606a } .title, .ours { font-weight: 600; fill: #24292f }
rect { fill: #afb8c1 } rect.ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #8b949e } .title, text.ours { fill: #e6edf3 }
rect { fill: #484f58 } rect.ours { fill: #58a6ff }
}
</style>
<text class="title" x="0" y="14">{{.Title}}</text>
{{range .Texts}}<text{{if .Class}} class="{{.Class}}"{{end}} x="{{.X}}" y="{{.Y}}"{{if .End}} text-anchor="end"{{end}}>{{.Text}}</text>
{{end}}{{range .Rects}}<rect{{if .Class}} class="{{.Class}}"{{end}} x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}" rx="2"/>
{{end}}</svg>
`))

type label struct {
	Class string
	X, Y  int
	End   bool
	Text  string
}

type rect struct {
	Class         string
	X, Y          int
	Width, Height string
}

// drawBars makes the picture of a chart.
func drawBars(c chart) ([]byte, error) {
	most := 0.0
	for _, g := range c.groups {
		for _, b := range g.bars {
			most = max(most, b.number)
		}
	}
	var texts []label
	var rects []rect
	y := titleHeight
	for _, g := range c.groups {
		texts = append(texts, label{X: 0, Y: y + 16, Text: g.title})
		y += groupHead
		for _, b := range g.bars {
			class := ""
			if b.ours {
				class = "ours"
			}
			length := b.number / most * (barsTo - barsFrom)
			texts = append(texts,
				label{Class: class, X: barsFrom - 8, Y: y + 11, End: true, Text: b.name},
				label{Class: class, X: barsFrom + int(length) + 8, Y: y + 11, Text: b.text})
			rects = append(rects, rect{class, barsFrom, y, fmt.Sprintf("%.1f", length), fmt.Sprint(barHeight)})
			y += barStep
		}
	}
	var out bytes.Buffer
	err := barsTemplate.Execute(&out, map[string]any{
		"Width": chartWidth, "Height": y + 4, "Title": c.title, "Texts": texts, "Rects": rects,
	})
	return out.Bytes(), err
}
