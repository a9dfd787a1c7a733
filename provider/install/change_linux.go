package install

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// changeOf returns when a file or what is known of it last changed, which no program can set, and which file it is.
func changeOf(info fs.FileInfo) (at time.Time, identity string, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return at, "", false
	}
	return time.Unix(s.Ctim.Unix()), fmt.Sprint(s.Dev, s.Ino), true
}
