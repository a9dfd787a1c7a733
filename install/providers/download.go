package providers

import (
	"context"
	"errors"
	"os"

	"github.com/millipede-iac/millipede/install/services"
)

// download is a packed package at a URL, or one that get writes to a file.
type download struct {
	services.Download
	services *services.Services
	get      func(ctx context.Context, into *os.File) error
	verify   func(archive string) (*Authentication, error)
}

// fetch makes a package available on this machine and returns the name of its archive, which is empty for an
// unpacked package. A downloaded archive is in the directory for temporary files, and is authenticated; remove
// removes it.
func (c candidate) fetch(ctx context.Context, temp string) (archive string, auth *Authentication, remove func(),
	err error) {
	if c.download == nil {
		return c.archive, nil, func() {}, nil
	}
	f, err := os.CreateTemp(temp, "terraform-provider-*.zip")
	if err != nil {
		return "", nil, nil, err
	}
	remove = func() { os.Remove(f.Name()) } //nolint:errcheck // the system cleans its temporary directory
	if c.download.get != nil {
		err = c.download.get(ctx, f)
	} else {
		_, err = c.download.services.Download(ctx, c.download.Download, f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		auth, err = c.download.verify(f.Name())
	}
	if err != nil {
		remove()
		return "", nil, nil, err
	}
	return f.Name(), auth, remove, nil
}
