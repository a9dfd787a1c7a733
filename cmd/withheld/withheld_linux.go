package withheld

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/millipede-iac/millipede/environ"
)

// startAgain replaces the process by the same program with another environment. It returns only after an error.
func startAgain(secrets, rest environ.Variables) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	data, err := json.Marshal(secrets)
	if err != nil {
		return fmt.Errorf("encoding the variables: %w", err)
	}
	fd, err := unix.MemfdCreate("withheld", 0) // it is to survive the start
	if err != nil {
		return fmt.Errorf("making a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "withheld")
	defer f.Close() //nolint:errcheck // nothing is lost
	if _, err := f.WriteAt(data, 0); err != nil {
		return fmt.Errorf("writing a file in memory: %w", err)
	}
	if err := unix.Exec(program, os.Args, rest.With(handle+"="+strconv.Itoa(fd))); err != nil {
		return fmt.Errorf("starting %s again: %w", program, err)
	}
	return nil
}

// received reads the variables from the file that startAgain has made, and closes it.
func received(text string) (environ.Variables, error) {
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q names no descriptor", handle, text)
	}
	f := os.NewFile(uintptr(fd), "withheld")
	defer f.Close() //nolint:errcheck // nothing is lost
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the variables that were withheld: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("reading the variables that were withheld: %w", err)
	}
	var secrets environ.Variables
	if err := json.Unmarshal(data, &secrets); err != nil {
		return nil, fmt.Errorf("reading the variables that were withheld: %w", err)
	}
	return secrets, nil
}
