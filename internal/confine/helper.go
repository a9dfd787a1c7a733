package confine

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Helper is the first argument with which a program of Millipede executes another program, confined: see Help.
const Helper = "confined-process"

// Arguments returns the arguments of the helper, beginning with Helper. Those of the program to be executed follow.
func (r Rules) Arguments() []string {
	args := []string{Helper, "-read=" + joined(r.Read), "-write=" + joined(r.Write)}
	if r.Alone {
		args = append(args, "-alone")
	}
	return append(args, "--")
}

func joined(paths []string) string { return strings.Join(paths, string(filepath.ListSeparator)) }

// Help is the helper: it restricts the process as its arguments say, which are those after Helper, and executes the
// program that they name. It returns, with an exit code, if that fails. Nothing in the environment has an influence on
// it, because that belongs to the program.
func Help(args []string) int {
	err := help(args)
	fmt.Fprintf(os.Stderr, "Error: the program was not executed: %s\n", err)
	return 126
}

func help(args []string) error {
	f := flag.NewFlagSet(Helper, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	read, write, alone := f.String("read", "", ""), f.String("write", "", ""), f.Bool("alone", false, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return errors.New("none is named")
	}
	r := Rules{Read: filepath.SplitList(*read), Write: filepath.SplitList(*write), Alone: *alone}
	if err := r.Apply(); err != nil {
		return err
	}
	return execute(f.Args())
}
