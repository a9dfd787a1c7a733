package providers

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// changeOf returns the time of the last change of a file or its metadata, which programs cannot set, and the
// identity of the file.
func changeOf(info fs.FileInfo) (at time.Time, identity string, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return at, "", false
	}
	return time.Unix(s.Ctim.Unix()), fmt.Sprint(s.Dev, s.Ino), true
}
