//go:build linux || darwin || freebsd

package store

import "golang.org/x/sys/unix"

// free returns how many bytes this user can still write to the file system of a directory.
func free(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(max(s.Bavail, 0)) * uint64(s.Bsize), nil //nolint:gosec,unconvert // other systems have other types
}
