package service

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
)

// disk accepts data as long as it has space.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(p []byte) (int, error) {
	if n := min(len(p), d.room); n < len(p) {
		d.room = 0
		_, _ = d.Buffer.Write(p[:n])
		return n, syscall.ENOSPC
	}
	d.room -= len(p)
	return d.Buffer.Write(p)
}

// Lines that were written while the disk was full were missing in the log.
func TestALogOnAFullDiskHasEveryLineOnceThereIsRoom(t *testing.T) {
	d := &disk{room: 9}
	l := &bufferedLog{log: d}
	for _, line := range []string{"first\n", "second\n", "third\n"} {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%q: %d, %v", line, n, err)
		}
	}
	if err := l.Flush(); err == nil {
		t.Error("the disk is full, but no error is reported")
	}
	d.room = 1000
	if _, err := l.Write([]byte("fourth\n")); err != nil {
		t.Error(err)
	}
	if err := l.Flush(); err != nil || d.String() != "first\nsecond\nthird\nfourth\n" {
		t.Errorf("%q, %v", d.String(), err)
	}
	d.room = 0
	if _, err := l.Write([]byte(strings.Repeat("x", maxPending+1))); err == nil {
		t.Error("the buffer has grown beyond its limit")
	}
}
