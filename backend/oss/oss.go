// Package oss stores snapshots in a bucket of Alibaba Cloud's object store, compatible with OpenTofu's backend
// "oss".
//
// A workspace is an object. It is locked by a row in a table of TableStore, which also contains the checksum of the
// state.
package oss

import (
	"context"
	"net/http"

	"github.com/millipede-iac/millipede/backend/bucket"
)

// driver sends the requests about objects.
type driver struct {
	bucket.Plain
	acl     string
	encrypt bool
}

// Where implements bucket.Driver.
func (d *driver) Where(object string) string { return "oss://" + d.Bucket + "/" + object }

// Get implements bucket.Driver.
func (d *driver) Get(ctx context.Context, object string) ([]byte, error) {
	answer, err := d.Fetch(ctx, object)
	if err != nil || answer == nil {
		return nil, err
	}
	return answer.Body, nil
}

// Put implements bucket.Driver.
func (d *driver) Put(ctx context.Context, object string, data []byte) error {
	h := http.Header{"Content-Type": {"application/json"}}
	if d.acl != "" {
		h.Set("X-Oss-Object-Acl", d.acl)
	}
	if d.encrypt {
		h.Set("X-Oss-Server-Side-Encryption", "AES256")
	}
	_, err := d.Ask(ctx, http.MethodPut, object, nil, h, data)
	return err
}
