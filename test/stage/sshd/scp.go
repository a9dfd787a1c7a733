//go:build unix

package sshd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// receive is the program scp that receives, as far as it is needed: files and directories, into target or as target.
func receive(target string, recursive bool, rw io.ReadWriter) uint32 {
	r := &receiver{r: bufio.NewReader(rw), w: rw}
	if !r.ok() {
		return 1
	}
	if err := r.into(target, recursive); err != nil {
		fmt.Fprintf(rw, "\x01scp: %s\n", err)
		return 1
	}
	return 0
}

type receiver struct {
	r *bufio.Reader
	w io.Writer
}

func (r *receiver) ok() bool {
	_, err := r.w.Write([]byte{0})
	return err == nil
}

// into stores the received files until the end, or until the end of a directory.
func (r *receiver) into(target string, recursive bool) error {
	for {
		line, err := r.r.ReadString('\n')
		if errors.Is(err, io.EOF) || err == nil && line == "E\n" {
			r.ok()
			return nil
		}
		if err != nil {
			return err
		}
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) != 3 {
			return fmt.Errorf("protocol error: %q", line)
		}
		path := target
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			path = filepath.Join(target, fields[2])
		}
		switch line[0] {
		case 'D':
			if !recursive {
				return fmt.Errorf("%s: is a directory", fields[2])
			}
			if err := os.Mkdir(path, 0o755); err != nil && !os.IsExist(err) {
				return err
			}
			r.ok()
			err = r.into(path, true)
		case 'C':
			err = r.file(path, fields[1])
		default:
			err = fmt.Errorf("protocol error: %q", line)
		}
		if err != nil {
			return err
		}
	}
}

func (r *receiver) file(path, size string) error {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	r.ok()
	_, err = io.CopyN(f, r.r, n)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if _, err := r.r.ReadByte(); err != nil { // the sender's own status
		return err
	}
	r.ok()
	return nil
}
