package service

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Bounds of an archive once it is unpacked.
const (
	maxFiles  = 200_000
	expansion = 20 // times the limit of the archive itself
)

func megabytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// checkArchive reads a whole archive of a configuration within bounds. Where the files of it may go is checked when it
// is unpacked.
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
