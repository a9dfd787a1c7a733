package estate

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/wire"
)

// sharePackage uploads an unpacked package as an archive, unless the blob with this name exists. The archive
// depends only on the content, so the same package has the same blob on every machine.
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
	// Executables compress almost as well in a third of the time, for which the first apply on a server waits.
	if err := providers.Pack(&archive, dir, flate.BestSpeed); err != nil {
		return err
	}
	sum := sha256.Sum256(archive.Bytes())
	hexSum := hex.EncodeToString(sum[:])
	if err := blobs.PutBlob(ctx, hexSum, archive.Bytes()); err != nil {
		return err
	}
	return blobs.NameBlob(ctx, name, hexSum)
}
