package modules

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is the number of symbolic links after which a path is taken for an endless one.
const maxLinks = 255

// resolve follows the symbolic links in a clean path that is relative to base, or absolute. Apart from the links, the
// path stays as it is written: it becomes path.module, so a shorter path to the same directory would change the values
// that are made from it. The result is relative unless a link leads to an absolute path.
func resolve(base, dir string) (string, error) {
	if base == "" || filepath.IsAbs(dir) {
		return filepath.EvalSymlinks(dir)
	}
	base, err := filepath.EvalSymlinks(base) // ".." leads from the real directory to its parent
	if err != nil {
		return "", err
	}
	done, links := "", 0
	rest := strings.Split(dir, string(filepath.Separator))
	for len(rest) > 0 {
		done = filepath.Join(done, rest[0]) // after a name, ".." removes it
		rest = rest[1:]
		at := filepath.Join(base, done)
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s leads through too many symbolic links", dir)
		}
		target, err := os.Readlink(at)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			return filepath.EvalSymlinks(filepath.Join(append([]string{target}, rest...)...))
		}
		done = filepath.Dir(done)
		rest = append(strings.Split(target, string(filepath.Separator)), rest...)
	}
	return filepath.Clean(done), nil
}
