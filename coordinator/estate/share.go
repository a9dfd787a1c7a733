package estate

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/millipede-iac/millipede/provider/install"
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
	var archive bytes.Buffer
	// Executables shrink hardly less at a third of the time, which the first apply on a server waits for.
	if err := install.Pack(&archive, dir, flate.BestSpeed); err != nil {
		return err
	}
	sum := sha256.Sum256(archive.Bytes())
	hexSum := hex.EncodeToString(sum[:])
	if err := blobs.PutBlob(ctx, hexSum, archive.Bytes()); err != nil {
		return err
	}
	return blobs.NameBlob(ctx, name, hexSum)
}
