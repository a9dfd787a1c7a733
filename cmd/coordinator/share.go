package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/millipede-iac/millipede/wire"
)

// sharePackage uploads an unpacked package as an archive, unless the blob of this name is there. The archive depends
// on the content alone, so the same package has the same blob from every machine.
func sharePackage(ctx context.Context, blobs wire.Blobs, name, dir string) error {
	switch sum, err := blobs.LookupBlob(ctx, name); {
	case err == nil:
		if has, err := blobs.HasBlob(ctx, sum); err != nil || has {
			return err
		}
	case !errors.Is(err, wire.ErrNotFound):
		return err
	}
	archive, err := pack(dir)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(archive)
	hexSum := hex.EncodeToString(sum[:])
	if err := blobs.PutBlob(ctx, hexSum, archive); err != nil {
		return err
	}
	return blobs.NameBlob(ctx, name, hexSum)
}

// pack makes an archive of a directory: files in order of name, no times.
func pack(dir string) ([]byte, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	// Executables shrink hardly less at a third of the time, which the first apply on a server waits for.
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	for _, name := range names {
		if err := packFile(z, real, name); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func packFile(z *zip.Writer, dir, name string) error {
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	header := &zip.FileHeader{Name: filepath.ToSlash(rel), Method: zip.Deflate}
	header.SetMode(info.Mode())
	w, err := z.CreateHeader(header)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
