package turns

import (
	"context"

	"github.com/wskit/wskit/bench/process"
	"github.com/wskit/wskit/bench/rival"
)

// Names are those of the servers that are compared: wskit first, then its rivals.
func Names() []string { return append([]string{"wskit"}, rival.Kinds()...) }

// Programs are the servers' programs.
type Programs struct{ echo, rival string }

// Build compiles them into a folder.
func Build(ctx context.Context, folder string) (p Programs, err error) {
	if p.echo, err = process.Build(ctx, folder, process.Cmd+"echo"); err == nil {
		p.rival, err = process.Build(ctx, folder, process.Cmd+"rival")
	}
	return p, err
}

// Start starts a server by its name, on a port that the kernel chooses unless flags say otherwise.
func (p Programs) Start(ctx context.Context, name string, flags ...string) (*process.Process, error) {
	command := p.command(name, flags)
	return process.Start(ctx, command[0], command[1:]...)
}

// StartLow is Start with the lowest priority, for a server that stands for one on another machine.
func (p Programs) StartLow(ctx context.Context, name string, flags ...string) (*process.Process, error) {
	return process.Start(ctx, "nice", append([]string{"-n", "19"}, p.command(name, flags)...)...)
}

func (p Programs) command(name string, flags []string) []string {
	flags = append([]string{"-addr", "127.0.0.1:0"}, flags...)
	if name == Names()[0] {
		return append([]string{p.echo}, flags...)
	}
	return append([]string{p.rival, "-kind", name}, flags...)
}

// StartAll starts all servers, in the order of Names.
func (p Programs) StartAll(ctx context.Context, flags ...string) (servers []*process.Process, stop func(), err error) {
	stop = func() {
		for _, s := range servers {
			s.Stop()
		}
	}
	for _, name := range Names() {
		s, err := p.Start(ctx, name, flags...)
		if err != nil {
			stop()
			return nil, nil, err
		}
		servers = append(servers, s)
	}
	return servers, stop, nil
}
