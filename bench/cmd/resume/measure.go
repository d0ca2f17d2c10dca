package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/stats"
)

// figures are those of one round.
type figures struct {
	undisturbed  bool // the server was
	reads, pages float64

	// until a message has arrived at one of the others; as many in each, or nearly
	quiet, busy, storm []time.Duration

	half    float64 // seconds until half had resumed
	seconds float64 // until all had resumed
	cpu     float64 // of the server for a replayed message, in microseconds
	peak    float64 // the server's memory, in MB
}

// pageMessages is how many messages a page of a log has, at most (docs/security.md).
const pageMessages = 128

func measure(ctx context.Context, s settings) (section page.Section, err error) {
	if s.cpus, err = divideCPUs(); err != nil {
		return section, err
	}
	var rounds []figures
	for i := range s.rounds {
		f, err := s.round(ctx)
		if err != nil {
			return section, err
		}
		rounds = append(rounds, f)
		log.Printf("round %d: p99 of %d deliveries %.0f µs, on busy CPUs %.0f µs, in the storm %.0f µs, %.2f s",
			i+1, len(f.storm), micros(f.quiet, 0.99), micros(f.busy, 0.99), micros(f.storm, 0.99), f.seconds)
	}
	section = page.Section{
		Title: "A storm of resumes", Command: "resume", Table: table(rounds),
		About: fmt.Sprintf("%d clients resume a topic at once, %d missed messages each; %d others follow another topic with %d messages a second. %d storms, each on a server of its own. Latencies are of all deliveries, and other figures the median of the storms. The storm keeps all CPUs busy, so the time before is measured twice: as it is, and while threads of the lowest priority keep them busy.",
			s.clients, s.missed, s.others, s.rate, s.rounds),
	}
	if rounds[0].undisturbed {
		section.About += " The server has a priority of real time, so no other program keeps it from its CPUs."
	} else {
		section.About += " Other programs may have kept the server from its CPUs: the command may not give it a priority of real time."
	}
	return section, nil
}

// round measures with a server of its own.
func (s settings) round(ctx context.Context) (f figures, err error) {
	var srv *process.Process
	start := func() (err error) { srv, err = process.Start(ctx, os.Args[0], "-serve"); return err }
	err = s.cpus.onServers(func() (err error) { f.undisturbed, err = undisturbed(start); return err })
	if err != nil {
		return f, err
	}
	defer srv.Stop()
	c, joined, err := join(ctx, srv.Addr, hot, nil)
	if err != nil {
		return f, err
	}
	_ = c.CloseNow()
	if _, err := get(srv, "/fill?n="+strconv.Itoa(s.missed)); err != nil {
		return f, err
	}
	o, err := openOthers(ctx, srv.Addr, s.others)
	if err != nil {
		return f, err
	}
	defer o.close()
	clients, err := process.StartClients(ctx, os.Args[0], "-storm", "-addr", srv.Addr, "-clients", strconv.Itoa(s.clients), "-ticket", joined.Ticket, "-pos", joined.Pos)
	if err != nil {
		return f, err
	}
	defer clients.Stop()
	if err := clients.Expect("connected"); err != nil {
		return f, err
	}
	if f.quiet, err = o.during(ctx, s.rate, func() error { time.Sleep(s.quiet); return nil }); err != nil {
		return f, err
	}
	stop, err := s.cpus.keepBusy(ctx)
	if err != nil {
		return f, err
	}
	f.busy, err = o.during(ctx, s.rate, func() error { time.Sleep(s.quiet); return nil })
	stop()
	if err != nil {
		return f, err
	}
	readsBefore, err := get(srv, "/reads")
	if err != nil {
		return f, err
	}
	var result load.ResumeResult
	used, err := srv.CPUDuring(func() (err error) {
		f.storm, err = o.during(ctx, s.rate, func() error { return errors.Join(clients.Go(), clients.Result(&result)) })
		return err
	})
	if err != nil {
		return f, err
	}
	reads, err := get(srv, "/reads")
	if err != nil {
		return f, err
	}
	if result.Replayed != s.clients*s.missed {
		return f, fmt.Errorf("%d messages were replayed, want %d", result.Replayed, s.clients*s.missed)
	}
	f.quiet = f.quiet[max(0, len(f.quiet)-len(f.storm)):]
	f.busy = f.busy[max(0, len(f.busy)-len(f.storm)):]
	peak, err := srv.PeakRSS()
	f.reads, f.pages = float64(reads-readsBefore), float64((s.missed+pageMessages-1)/pageMessages)
	f.half = result.Half.Seconds()
	f.seconds, f.cpu, f.peak = result.Elapsed.Seconds(), stats.Micros(used)/float64(result.Replayed), float64(peak)/(1<<20)
	return f, err
}

// get asks the server for a number; an empty answer is 0.
func get(srv *process.Process, path string) (int, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + srv.Addr + path)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s: %s %w", path, res.Status, body, err)
	}
	if len(body) == 0 {
		return 0, nil
	}
	return strconv.Atoi(string(body))
}

func table(rounds []figures) [][]string {
	var quiet, busy, storm []time.Duration
	for _, f := range rounds {
		quiet, busy, storm = append(quiet, f.quiet...), append(busy, f.busy...), append(storm, f.storm...)
	}
	lines := [][]string{{"figure", "", "target", "met"}}
	row := func(title string, most, value float64) {
		cells := []string{title, page.Number(value), "", ""}
		if most > 0 {
			cells[2], cells[3] = fmt.Sprintf("≤ %g", most), page.Met(value <= most)
		}
		lines = append(lines, cells)
	}
	row("reads of the log", 0, stats.Median(rounds, func(f figures) float64 { return f.reads }))
	row("reads ÷ pages of the topic", 2, stats.Median(rounds, func(f figures) float64 { return f.reads / f.pages }))
	row("deliveries to others, before", 0, float64(len(quiet)))
	row("latency of others p50, before (µs)", 0, micros(quiet, 0.5))
	row("latency of others p99, before (µs)", 0, micros(quiet, 0.99))
	row("deliveries to others, before, on busy CPUs", 0, float64(len(busy)))
	row("latency of others p50, before, on busy CPUs (µs)", 0, micros(busy, 0.5))
	row("latency of others p99, before, on busy CPUs (µs)", 0, micros(busy, 0.99))
	row("deliveries to others, in storms", 0, float64(len(storm)))
	row("latency of others p50, in storms (µs)", 0, micros(storm, 0.5))
	row("latency of others p99, in storms (µs)", 0, micros(storm, 0.99))
	row("p99 in storms ÷ before", 2, micros(storm, 0.99)/micros(quiet, 0.99))
	row("p99 in storms ÷ before, on busy CPUs", 2, micros(storm, 0.99)/micros(busy, 0.99))
	row("time until half have resumed (s)", 0, stats.Median(rounds, func(f figures) float64 { return f.half }))
	row("time until all have resumed (s)", 0, stats.Median(rounds, func(f figures) float64 { return f.seconds }))
	row("CPU of the server for a replayed message (µs)", 0, stats.Median(rounds, func(f figures) float64 { return f.cpu }))
	row("peak memory of the server (MB)", 0, stats.Median(rounds, func(f figures) float64 { return f.peak }))
	return lines
}

// micros is a quantile in microseconds.
func micros(delays []time.Duration, q float64) float64 {
	return stats.Micros(stats.Quantile(slices.Sorted(slices.Values(delays)), q))
}
