// Package cos stores snapshots in a bucket of Tencent Cloud's object store, compatible with OpenTofu's backend
// "cos".
//
// A workspace is an object. It is locked by a second object; because the store has no conditional creation, a tag
// of the account excludes others while that object is checked and created.
package cos

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/tencent"
)

// driver sends the requests about objects and locks.
type driver struct {
	bucket.Plain
	client  *tencent.Client
	acl     string
	encrypt bool
}

// Where implements bucket.Driver.
func (d *driver) Where(object string) string { return "cos://" + d.Bucket + "/" + object }

// checksum returns the checksum of an object, which is part of its metadata and, for a lock, its ID: hexadecimal
// MD5.
func checksum(data []byte) string {
	sum := md5.Sum(data) // OpenTofu's convention, not a protection
	return hex.EncodeToString(sum[:])
}

const checksumHeader = "X-Cos-Meta-Md5"

// Get implements bucket.Driver.
func (d *driver) Get(ctx context.Context, object string) ([]byte, error) {
	answer, err := d.Fetch(ctx, object)
	if err != nil || answer == nil {
		return nil, err
	}
	want := answer.Header.Get(checksumHeader)
	if got := checksum(answer.Body); want != got {
		return nil,
			fmt.Errorf("the object %s has the check sum %s, and its metadata say %q: it was not written by "+
				"OpenTofu or "+
				"Millipede, or not completely", object, got, want)
	}
	if answer.Body == nil {
		return []byte{}, nil
	}
	return answer.Body, nil
}

// Put implements bucket.Driver.
func (d *driver) Put(ctx context.Context, object string, data []byte) error {
	h := http.Header{checksumHeader: {checksum(data)}}
	if d.acl != "" {
		h.Set("X-Cos-Acl", d.acl)
	}
	if d.encrypt {
		h.Set("X-Cos-Server-Side-Encryption", "AES256")
	}
	_, err := d.Ask(ctx, http.MethodPut, object, nil, h, data)
	return err
}
