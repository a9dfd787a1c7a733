package service

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Limits of an archive's content after unpacking.
const (
	maxFiles  = 200_000
	expansion = 20 // times the limit of the archive itself
)

func megabytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// checkArchive reads a whole configuration archive and checks it against the limits of size and of number of
// files. The paths of its files are checked when it is unpacked.
func checkArchive(r io.Reader, limit int64) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("it is not compressed with gzip: %w", err)
	}
	t := tar.NewReader(io.LimitReader(z, limit*expansion))
	var size int64
	for files := 0; ; files++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not an archive: %w", err)
		}
		if size += h.Size; files > maxFiles || size > limit*expansion {
			return fmt.Errorf("it has more than %d files or %s", maxFiles, megabytes(limit*expansion))
		}
	}
}
