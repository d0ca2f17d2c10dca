package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Clients is a process of clients. It prints a line when they are ready, and what they have counted as lines of JSON.
type Clients struct {
	*Process
	in  io.Writer
	out *bufio.Reader
}

// StartClients runs a program. The caller stops it.
func StartClients(ctx context.Context, program string, args ...string) (*Clients, error) {
	p, in, out, err := start(ctx, program, args)
	return &Clients{p, in, bufio.NewReader(out)}, err
}

// Expect waits for a line.
func (c *Clients) Expect(want string) error {
	line, err := c.out.ReadString('\n')
	switch {
	case err != nil:
		return fmt.Errorf("the clients have ended: %w", err)
	case line != want+"\n":
		return fmt.Errorf("the clients print %q, want %q", line, want)
	}
	return nil
}

// Go sends a line, for which the clients have waited.
func (c *Clients) Go() error {
	_, err := fmt.Fprintln(c.in, "go")
	return err
}

// Result waits for what they have counted.
func (c *Clients) Result(result any) error {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the clients have ended: %w", err)
	}
	return json.Unmarshal(line, result)
}
