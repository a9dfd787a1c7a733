// Package confined executes a program with less access to files, and with less of the machine, than this process has.
//
// A process of the service starts other programs through it (package launch): it restricts itself, and becomes the
// other program. It reads no configuration, and nothing in the environment.
package confined

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/internal/confine"
)

// Command is the first argument with which a program of Millipede executes another program: see Execute.
const Command = "confined-process"

// Arguments returns the arguments of the command, beginning with Command. Those of the program to be executed follow.
func Arguments(r confine.Rules, l Limits) []string {
	args := append([]string{Command, "-read=" + joined(r.Read), "-write=" + joined(r.Write)}, l.arguments()...)
	if r.Alone {
		args = append(args, "-alone")
	}
	return append(args, "--")
}

func joined(paths []string) string { return strings.Join(paths, string(filepath.ListSeparator)) }

// Execute restricts the process as the arguments after Command say, and executes the program that they name. It
// returns, with an exit code, if that fails. Nothing in the environment has an influence on it, because that belongs to
// the program.
func Execute(args []string) int {
	err := become(args)
	fmt.Fprintf(os.Stderr, "Error: the program was not executed: %s\n", err)
	return 126
}

func become(args []string) error {
	f := flag.NewFlagSet(Command, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	read, write, alone := f.String("read", "", ""), f.String("write", "", ""), f.Bool("alone", false, "")
	var l Limits
	f.Int64Var(&l.Processes, "processes", 0, "")
	f.Int64Var(&l.FileSize, "file-size", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return errors.New("none is named")
	}
	r := confine.Rules{Read: filepath.SplitList(*read), Write: filepath.SplitList(*write), Alone: *alone}
	if err := r.Apply(); err != nil {
		return err
	}
	if err := waive(); err != nil {
		return err
	}
	if err := l.apply(); err != nil {
		return err
	}
	return execute(f.Args())
}
