// Command conformance compares a program with the recorded answers of OpenTofu 1.12.6: expressions (functions.json) and
// scenarios, which are configurations with commands (scenarios/NAME/case.json).
//
// README.md has the forms of both, and describes the comparison.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are those of the command line.
type options struct {
	program string
	cases   string
	fixture string
	wanted  []string // patterns of names; empty for all
	without map[string]bool
	jobs    int
	limit   time.Duration
	verbose bool
}

func main() { os.Exit(run()) }

func run() int {
	var o options
	flag.StringVar(&o.program, "bin", "", "the program to compare (required)")
	flag.StringVar(&o.cases, "cases", "", "a folder of scenarios, or a file of expressions, instead of the project's")
	flag.StringVar(&o.fixture, "fixtures", "", "what expressions read as fixtures/; by default it is beside their file")
	only := flag.String("only", "", "names of cases, with * and ?, separated by commas")
	providers := flag.String("providers", "builtin", "only scenarios that need no other providers; all for any")
	flag.IntVar(&o.jobs, "jobs", 2, "how many cases at a time")
	flag.DurationVar(&o.limit, "timeout", 2*time.Minute, "the time limit of one command")
	flag.BoolVar(&o.verbose, "v", false, "print every difference")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: conformance -bin PROGRAM [options] functions|scenarios")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.wanted = fields(*only)
	if *providers != "all" {
		o.without = map[string]bool{}
		for _, name := range append(fields(*providers), "builtin") {
			o.without[name] = true
		}
	}
	suites := map[string]struct {
		cases string
		run   func(context.Context, options) (passed, total int, err error)
	}{"functions": {"functions/cases.json", functions}, "scenarios": {"scenarios", scenarios}}
	suite, known := suites[flag.Arg(0)]
	if !known || flag.NArg() != 1 || o.program == "" {
		flag.Usage()
		return 2
	}
	if o.cases == "" {
		o.cases = filepath.Join("test", "conformance", suite.cases)
	}
	var err error
	if o.program, err = filepath.Abs(o.program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, total, err := suite.run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Printf("passed %d of %d\n", passed, total)
	if passed < total {
		return 1
	}
	return 0
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// chosen reports whether a name is one of those that are wanted.
func (o *options) chosen(name string) bool {
	for _, pattern := range o.wanted {
		if ok, err := filepath.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return len(o.wanted) == 0
}
