// Command wskit talks to a wskit server from a terminal or a script:
//
//	go run github.com/wskit/wskit/cmd/wskit check wss://chat.example.com/ws
//
// docs/command.md has a tour. Without arguments it lists its commands.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// The exit status says what became of it.
const (
	done   = 0
	failed = 1 // the server has refused, or was not reached
	misuse = 2 // the command line makes no sense
)

const usage = `Talks to a wskit server.

  wskit call URL TYPE [PAYLOAD]   make a request and print its reply
  wskit send URL TYPE [PAYLOAD]   send an event
  wskit watch URL                 print the events that come
  wskit check URL                 say what is in the way of a connection
  wskit load URL                  send messages at a rate, and measure how long answers take
  wskit types CONTRACT [TYPE]     list the messages of a server
  wskit record URL FILE           pass clients on to the server, and record what they say
  wskit replay URL FILE           send it again, and compare how it is answered

The payload is JSON; "-" reads it from the standard input. A token comes from -token, or
better from the environment variable WSKIT_TOKEN, and is never printed.

  wskit call ws://localhost:8080/ws room.join '{"room": "lobby"}'
  wskit watch -call 'room.join {"room": "lobby"}' ws://localhost:8080/ws | jq .payload

wskit COMMAND -h lists the flags of a command. The exit status is 0, or 1 if the server has
refused or was not reached, or 2 for a command line that makes no sense.
`

// command is what runs: where it reads and writes, and its flags.
type command struct {
	in       io.Reader
	out, err io.Writer
	colour   bool // out is a terminal

	token, origin string
	timeout       time.Duration
	calls         []string      // of watch
	idle          time.Duration // of check
	n             int           // of watch: so many events
	loads         loadFlags
	records       recordFlags
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &command{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	c.colour = isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == ""
	if line, completes := os.LookupEnv("COMP_LINE"); completes {
		os.Exit(c.complete(ctx, line, os.Getenv("WSKIT_CONTRACT")))
	}
	os.Exit(c.run(ctx, os.Args[1:]))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// subcommand is a command of wskit.
type subcommand struct {
	run   func(*command, context.Context, []string) int
	args  [2]int // how many there are at least and at most
	flags func(*command, *flag.FlagSet)
}

var commands = map[string]subcommand{
	"call":   {(*command).call, [2]int{2, 3}, (*command).connectionFlags},
	"send":   {(*command).send, [2]int{2, 3}, (*command).connectionFlags},
	"watch":  {(*command).watch, [2]int{1, 1}, (*command).watchFlags},
	"check":  {(*command).check, [2]int{1, 1}, (*command).checkFlags},
	"load":   {(*command).loadTest, [2]int{1, 1}, (*command).loadFlags},
	"record": {(*command).recordSession, [2]int{2, 2}, (*command).recordFlags},
	"replay": {(*command).replaySession, [2]int{2, 2}, (*command).replayFlags},
	"types":  {(*command).types, [2]int{1, 2}, func(*command, *flag.FlagSet) {}},
}

// run runs the command line, and returns the exit status.
func (c *command) run(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(c.out, usage)
		return done
	}
	chosen, ok := commands[args[0]]
	if !ok {
		return c.misused("there is no command %q; wskit help lists them", args[0])
	}
	flags := c.flagsOf(args[0])
	if err := flags.Parse(args[1:]); err != nil {
		return misuse
	}
	if n := flags.NArg(); n < chosen.args[0] || n > chosen.args[1] {
		return c.misused("%s has %d arguments; wskit help shows what it takes", args[0], n)
	}
	return chosen.run(c, ctx, flags.Args())
}

func (c *command) flagsOf(name string) *flag.FlagSet {
	flags := flag.NewFlagSet("wskit "+name, flag.ContinueOnError)
	flags.SetOutput(c.err)
	commands[name].flags(c, flags)
	return flags
}

// flagNames are the flags of a command, if there is one of this name.
func (c *command) flagNames(name string) (names []string) {
	if _, ok := commands[name]; ok {
		c.flagsOf(name).VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	}
	return names
}

func (c *command) connectionFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.token, "token", os.Getenv("WSKIT_TOKEN"), "the token of the user; the default is WSKIT_TOKEN")
	flags.Lookup("token").DefValue = "" // which would print it
	flags.StringVar(&c.origin, "origin", "", "the Origin that a page would have; the default is the server's own")
	flags.DurationVar(&c.timeout, "timeout", 10*time.Second, "how long the server has to answer")
}

func (c *command) callFlag(flags *flag.FlagSet) {
	const help = "a request that is made first, as 'TYPE PAYLOAD'; may be given several times"
	flags.Func("call", help, func(s string) error {
		c.calls = append(c.calls, s)
		return nil
	})
}

func (c *command) watchFlags(flags *flag.FlagSet) {
	c.connectionFlags(flags)
	c.callFlag(flags)
	flags.IntVar(&c.n, "n", 0, "end after so many events; the default is to go on")
}

func (c *command) checkFlags(flags *flag.FlagSet) {
	c.connectionFlags(flags)
	flags.DurationVar(&c.idle, "idle", 0, "how long to keep the connection idle, to find the timeouts of proxies")
}

func (c *command) misused(format string, args ...any) int {
	fmt.Fprintf(c.err, "wskit: "+format+"\n", args...)
	return misuse
}

func (c *command) failed(err error) int {
	fmt.Fprintf(c.err, "wskit: %v\n", c.withoutToken(err.Error()))
	return failed
}

// withoutToken is a text without the token, which an error of a library may have.
func (c *command) withoutToken(text string) string {
	if c.token == "" {
		return text
	}
	return strings.ReplaceAll(text, c.token, "…")
}
