// Command wskit-dryrun says which messages of a log new rules for rate limits would have refused:
//
//	go run github.com/wskit/wskit/cmd/wskit-dryrun -rules rules.json < messages.jsonl
//
// The format of the log is that of rules.DryRun. The exit status is 1 for rules or a log with
// an error, and 0 otherwise, refused messages or not.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/middleware/ratelimit/rules"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, log io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("wskit-dryrun", flag.ContinueOnError)
	file := flags.String("rules", "", "the file with the rules, as JSON")
	asJSON := flags.Bool("json", false, "print the report as JSON")
	rows := flags.Int("rows", 20, "how many clients the table has at most")
	key := flags.String("key", "user-type", "how messages are counted: user-type (by user or address, and type), user, ip, tenant or global")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys := map[string]ratelimit.KeyFunc{
		"user-type": nil, "user": ratelimit.PerUserOrIP, "ip": ratelimit.PerIP, "tenant": ratelimit.PerTenant, "global": ratelimit.Global,
	}
	if _, ok := keys[*key]; !ok {
		return fmt.Errorf("wskit-dryrun: -key is %q; it must be user-type, user, ip, tenant or global", *key)
	}
	if *file == "" {
		return errors.New("wskit-dryrun: -rules is missing; name the file with the rules")
	}
	document, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	parsed, err := rules.Parse(document)
	if err != nil {
		return err
	}
	store := func(now func() time.Time) limit.Store { return memory.NewStore(memory.Options{Now: now}) }
	report, err := rules.DryRun(parsed, store, rules.Options{Key: keys[*key]}, log)
	if err != nil {
		return err
	}
	if *asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return table(out, report, *rows)
}

// table prints the report for a person.
func table(out io.Writer, report rules.DryRunReport, rows int) error {
	fmt.Fprintf(out, "%d messages: %d refused (%d of them by the deny list), %d over a limit in shadow mode, %d delayed\n",
		report.Messages, report.Refused, report.Denied, report.Shadowed, report.Delayed)
	if len(report.Clients) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REFUSED\tCLIENT\tTIER\tTYPE\tRULE\tLIMIT\tFIRST")
	for _, c := range report.Clients[:min(max(rows, 0), len(report.Clients))] {
		client := c.Subject.User
		if c.Subject.IP.IsValid() {
			client = c.Subject.IP.Addr().String()
		}
		if c.Subject.Tenant != "" {
			client = c.Subject.Tenant + "/" + client
		}
		shadow := ""
		if c.Shadow {
			shadow = " (shadow)"
		}
		fmt.Fprintf(t, "%d%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Refused, shadow, client, c.Tier, c.Type, c.Rule, c.Policy, c.First.Format(time.RFC3339))
	}
	if more := len(report.Clients) - rows; more > 0 {
		fmt.Fprintf(t, "and %d more; see -rows\n", more)
	}
	return t.Flush()
}
