package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wskit/wskit/bench/load"
	"github.com/wskit/wskit/bench/page"
	"github.com/wskit/wskit/bench/process"
)

// figures are those of one round.
type figures struct {
	reads, pages       float64
	p50Quiet, p99Quiet float64
	p50Storm, p99Storm float64
	seconds            float64 // until all had resumed
	cpu                float64 // of the server for a replayed message, in microseconds
	peak               float64 // the server's memory, in MB
}

// pageMessages is how many messages a page of a log has, at most (docs/security.md).
const pageMessages = 128

func measure(ctx context.Context, s settings) error {
	if s.rounds < 1 || s.clients < 1 || s.missed < 1 || s.others < 1 || s.rate < 1 || s.quiet <= 0 {
		return fmt.Errorf("every size must be positive")
	}
	var rounds []figures
	for i := range s.rounds {
		f, err := s.round(ctx)
		if err != nil {
			return err
		}
		log.Printf("round %d: %+v", i+1, f)
		rounds = append(rounds, f)
	}
	text := table(rounds)
	fmt.Print("\n", text)
	if s.out == "" {
		return nil
	}
	return page.Write(s.out, "A storm of resumes", page.Command("resume")+fmt.Sprintf(
		"\n%d clients resume a topic at once, %d missed messages each; %d others follow another topic with %d messages a second. The median of %d rounds.\n\n%s\n%s",
		s.clients, s.missed, s.others, s.rate, s.rounds, text, page.Machine()))
}

// round measures with a server of its own.
func (s settings) round(ctx context.Context) (f figures, err error) {
	srv, err := process.Start(ctx, os.Args[0], "-serve")
	if err != nil {
		return f, err
	}
	defer srv.Stop()
	c, joined, err := join(ctx, srv.Addr, hot)
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
	st, err := startStorm(ctx, srv.Addr, s.clients, joined)
	if err != nil {
		return f, err
	}
	defer st.stop()
	if f.p50Quiet, f.p99Quiet, err = o.during(ctx, s.rate, func() error { time.Sleep(s.quiet); return nil }); err != nil {
		return f, err
	}
	readsBefore, err := get(srv, "/reads")
	if err != nil {
		return f, err
	}
	before, err := srv.CPUTime()
	if err != nil {
		return f, err
	}
	var result load.ResumeResult
	f.p50Storm, f.p99Storm, err = o.during(ctx, s.rate, func() (err error) { result, err = st.resume(); return err })
	if err != nil {
		return f, err
	}
	after, err := srv.CPUTime()
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
	peak, err := srv.PeakRSS()
	f.reads, f.pages = float64(reads-readsBefore), float64((s.missed+pageMessages-1)/pageMessages)
	f.seconds, f.cpu, f.peak = result.Elapsed.Seconds(), micros(after-before)/float64(result.Replayed), float64(peak)/(1<<20)
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

// stormProcess is the process of the clients that resume.
type stormProcess struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Reader
}

// startStorm returns when the clients are connected.
func startStorm(ctx context.Context, addr string, clients int, at subscribed) (*stormProcess, error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-storm", addr, "-clients", strconv.Itoa(clients), "-ticket", at.Ticket, "-pos", at.Pos)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	st := &stormProcess{cmd: cmd, in: in, lines: bufio.NewReader(out)}
	if line, err := st.lines.ReadString('\n'); err != nil || strings.TrimSpace(line) != "connected" {
		st.stop()
		return nil, fmt.Errorf("the storm prints %q: %w", line, err)
	}
	return st, nil
}

// resume has all clients resume, and returns when they have.
func (st *stormProcess) resume() (result load.ResumeResult, err error) {
	if _, err := fmt.Fprintln(st.in, "go"); err != nil {
		return result, err
	}
	line, err := st.lines.ReadBytes('\n')
	if err != nil {
		return result, fmt.Errorf("the storm has ended: %w", err)
	}
	return result, json.Unmarshal(line, &result)
}

// stop kills the process by its own id and reaps it.
func (st *stormProcess) stop() {
	_ = st.cmd.Process.Kill()
	_ = st.cmd.Wait()
}

func table(rounds []figures) string {
	median := func(of func(figures) float64) float64 {
		values := make([]float64, len(rounds))
		for i, f := range rounds {
			values[i] = of(f)
		}
		slices.Sort(values)
		return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	lines := [][]string{{"figure", "", "target", "met"}}
	row := func(title string, most float64, of func(figures) float64) {
		value := median(of)
		cells := []string{title, page.Number(value), "", ""}
		if most > 0 {
			cells[2], cells[3] = fmt.Sprintf("≤ %g", most), "no"
			if value <= most {
				cells[3] = "yes"
			}
		}
		lines = append(lines, cells)
	}
	row("reads of the log", 0, func(f figures) float64 { return f.reads })
	row("reads ÷ pages of the topic", 2, func(f figures) float64 { return f.reads / f.pages })
	row("latency of others p50, before (µs)", 0, func(f figures) float64 { return f.p50Quiet })
	row("latency of others p99, before (µs)", 0, func(f figures) float64 { return f.p99Quiet })
	row("latency of others p50, in the storm (µs)", 0, func(f figures) float64 { return f.p50Storm })
	row("latency of others p99, in the storm (µs)", 0, func(f figures) float64 { return f.p99Storm })
	row("p99 in the storm ÷ before", 2, func(f figures) float64 { return f.p99Storm / f.p99Quiet })
	row("time until all have resumed (s)", 0, func(f figures) float64 { return f.seconds })
	row("CPU of the server for a replayed message (µs)", 0, func(f figures) float64 { return f.cpu })
	row("peak memory of the server (MB)", 0, func(f figures) float64 { return f.peak })
	return page.Table(lines)
}
