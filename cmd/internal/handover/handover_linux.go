package handover

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func environ(own, visible []string) ([]string, error) {
	for _, entry := range own {
		if from, ok := strings.CutPrefix(entry, passing+"="); ok {
			all, err := received(from)
			if err = errors.Join(err, os.Unsetenv(passing)); err != nil {
				return nil, fmt.Errorf("reading the environment from %s: %w", entry, err)
			}
			return all, nil
		}
	}
	if len(visible) == len(own) {
		return own, nil
	}
	return nil, again(own, visible)
}

// received reads the environment from a descriptor, and closes it.
func received(descriptor string) ([]string, error) {
	n, err := strconv.ParseUint(descriptor, 10, 16)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(n), "environment")
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

// again executes the program with the visible part of its environment. It returns only with an error.
func again(own, visible []string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	memory, err := unix.MemfdCreate("environment", 0) // without CLOEXEC: the program inherits it
	if err != nil {
		return fmt.Errorf("passing the environment on: %w", err)
	}
	f := os.NewFile(uintptr(memory), "environment")
	defer f.Close() //nolint:errcheck // it is only reached when the program was not executed
	if _, err := f.WriteString(strings.Join(own, "\x00") + "\x00"); err != nil {
		return fmt.Errorf("passing the environment on: %w", err)
	}
	err = unix.Exec(program, os.Args, append(visible, passing+"="+strconv.Itoa(memory)))
	return fmt.Errorf("starting %s again: %w", program, err)
}
