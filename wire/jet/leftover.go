package jet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Names in the server's store, below the directory of an account: streams/STREAM and streams/STREAM/obs/CONSUMER have
// each a description and its checksum; the messages of a stream are in its msgs.
const (
	streamPattern   = "jetstream/*/streams/*"
	consumerPattern = streamPattern + "/obs/*"
)

// dropUnmade removes what a process was about to make when it ended: streams and consumers without a description, which
// nobody was told of. The server passes over them, with a warning that people can do nothing about. A stream that has
// messages stays, with the warning.
func dropUnmade(dir string) error {
	var errs []error
	for _, pattern := range []string{consumerPattern, streamPattern} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		errs = append(errs, err)
		for _, path := range found {
			if unmade, err := isUnmade(path); err != nil {
				errs = append(errs, err)
			} else if unmade {
				errs = append(errs, os.RemoveAll(path))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("looking through the message store: %w", err)
	}
	return nil
}

func isUnmade(path string) (bool, error) {
	described := true
	for _, name := range []string{"meta.inf", "meta.sum"} {
		_, err := os.Stat(filepath.Join(path, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		described = described && err == nil
	}
	if described {
		return false, nil
	}
	blocks, err := filepath.Glob(filepath.Join(path, "msgs", "*.blk"))
	for _, b := range blocks {
		if info, statErr := os.Stat(b); statErr == nil && info.Size() > 0 {
			return false, nil
		}
	}
	return true, err
}
