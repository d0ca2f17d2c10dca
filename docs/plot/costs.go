package main

import (
	"fmt"
	"os"
	"strings"
)

// libraries are the columns of the tables of servers, the names of which a chart shows.
var libraries = []struct{ column, name string }{
	{"wskit", "wskit"}, {"coder", "coder/websocket"}, {"gorilla", "gorilla/websocket"}, {"gws", "gws"}, {"melody", "melody"},
}

// charts are the pictures of the results.
func charts(r results) (all []chart, err error) {
	// bars are those of a row, one for each library.
	bars := func(file, section, row, unit string) (list []bar) {
		for _, l := range libraries {
			f := figure{file, section, row, l.column}
			text, failed := r.text(f)
			if failed == nil && text == "–" {
				continue
			}
			n, failed := r.number(f)
			if failed != nil && err == nil {
				err = failed
			}
			list = append(list, bar{l.name, n, text + unit, l.column == "wskit"})
		}
		return list
	}
	cpu := chart{name: "cpu-per-message", title: "CPU of the server per message, 50 connections (shorter is better)"}
	for _, n := range []string{"1", "8", "32"} {
		cpu.groups = append(cpu.groups, group{n + " in flight", bars(resultFile, servers, "CPU per message, 50 connections, "+n+" in flight (µs)", " µs")})
	}
	memory := chart{name: "memory-per-connection", title: "Memory of an idle connection (shorter is better)", groups: []group{
		{"at rest", bars(resultFile, servers, "RSS per idle connection, at rest (KB)", " KB")},
		{"at rest, with TLS in the server", bars(resultFile, underTLS, "RSS per idle connection, at rest (KB)", " KB")},
	}}
	decisions := chart{name: "decisions", title: "Decisions per second on one Redis (longer is better)"}
	for _, row := range []string{"64 callers, many keys", "256 callers, many keys", "64 callers, one key"} {
		g := group{title: row}
		for _, column := range []string{"wskit", "rival"} {
			f := figure{redisFile, "", "decisions per second, " + row, column}
			text, failed := r.text(f)
			if failed != nil {
				return nil, failed
			}
			n, failed := r.number(f)
			if failed != nil {
				return nil, failed
			}
			name := "wskit"
			if before, after, named := strings.Cut(text, " "); named { // redis_rate 67k
				name, text = before, after
			}
			g.bars = append(g.bars, bar{name, n, text, column == "wskit"})
		}
		decisions.groups = append(decisions.groups, g)
	}
	faults := chart{name: "faults", title: "What became of requests while servers, Redis and networks failed, in percent"}
	for _, of := range [][2]string{
		{"join", "joining a room"}, {"say", "publishing to a room"}, {"members", "asking for the members of a room"},
		{"work", "a short handler"}, {"slow", "a handler that takes its time"},
	} {
		row, g := of[0], group{title: of[1]}
		var n [4]float64
		for i, column := range []string{"sent", "acknowledged", "refused", "not answered: the connection ended"} {
			if n[i], err = r.number(figure{faultsFile, "", row, column}); err != nil {
				return nil, err
			}
		}
		for i, name := range []string{"acknowledged", "refused", "unanswered"} {
			percent := n[i+1] / n[0] * 100
			g.bars = append(g.bars, bar{name, percent, fmt.Sprintf("%.2f %%", percent), i == 0})
		}
		faults.groups = append(faults.groups, g)
	}
	return []chart{cpu, memory, decisions, faults}, err
}

// Where the README has its figures.
const (
	costsBegin = "<!-- go generate ./docs/plot writes the figures from bench/RESULTS*.md -->\n"
	costsEnd   = "<!-- end of the figures -->\n"
)

// withCosts replaces the figures in the README.
func withCosts(readme string, r results) (string, error) {
	before, rest, begun := strings.Cut(readme, costsBegin)
	_, after, ended := strings.Cut(rest, costsEnd)
	if !begun || !ended {
		return "", fmt.Errorf("the README has no %s… %s", costsBegin, costsEnd)
	}
	costs, err := costsTable(r)
	return before + costsBegin + costs + costsEnd + after, err
}

func costsTable(r results) (string, error) {
	const rivals, limiters = "coder/websocket by hand, gorilla, gws, melody", "go-limiter, throttled"
	cpu := func(n string) figure {
		return figure{resultFile, servers, "CPU per message, 50 connections, " + n + " in flight (µs)", best}
	}
	decision := func(keys string) figure {
		return figure{resultFile, inMemory, "ns, " + keys + ", serial", "ours ÷ go-limiter"}
	}
	redis := func(callers string) figure {
		return figure{redisFile, "", "decisions per second, " + callers + " callers, many keys", "ratio"}
	}
	var out strings.Builder
	out.WriteString("| | wskit ÷ the best of the others | the others |\n|---|---|---|\n")
	for _, row := range []struct {
		what    string
		figures []figure
		others  string
	}{
		{"server CPU per message, 1 / 8 / 32 in flight on 50 connections", []figure{cpu("1"), cpu("8"), cpu("32")}, rivals},
		{"median latency of one message on an idle server", []figure{{resultFile, servers, "latency p50, 1 connection, 1 in flight (µs)", best}}, "the same"},
		{"memory of an idle connection", []figure{{resultFile, servers, "RSS per idle connection, at rest (KB)", best}}, "the same"},
		{"deliveries per CPU second, 2,000 subscribers", []figure{{resultFile, servers, "fan-out, deliveries per CPU second", best}}, "the same without gorilla"},
		{"a decision in memory, one hot key / 100,000 keys", []figure{decision("1 hot key"), decision("100,000 keys")}, limiters},
		{"decisions per second on one Redis, 64 / 256 callers", []figure{redis("64"), redis("256")}, "redis_rate"},
	} {
		var texts []string
		for _, f := range row.figures {
			text, err := r.text(f)
			if err != nil {
				return "", err
			}
			texts = append(texts, text)
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", row.what, strings.Join(texts, " / "), row.others)
	}
	refused, err := r.text(figure{resultFile, servers, "refused frame ÷ handled frame", "wskit"})
	fmt.Fprintf(&out, "\nA rejected frame costs %s of a handled one.\n", refused)
	return out.String(), err
}

// writeCosts writes the figures into the README.
func writeCosts(name string, r results) error {
	readme, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err := withCosts(string(readme), r)
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
