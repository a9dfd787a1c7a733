// Package catalog lists the kinds of backends.
//
// A new backend is a package of its own below backend, and a line here. There is no registration at run
// time.
package catalog

import (
	"slices"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/azurerm"
	"github.com/millipede-iac/millipede/backend/consul"
	"github.com/millipede-iac/millipede/backend/cos"
	"github.com/millipede-iac/millipede/backend/gcs"
	httpbackend "github.com/millipede-iac/millipede/backend/http"
	"github.com/millipede-iac/millipede/backend/kubernetes"
	"github.com/millipede-iac/millipede/backend/oss"
	"github.com/millipede-iac/millipede/backend/pg"
	"github.com/millipede-iac/millipede/backend/remote"
	"github.com/millipede-iac/millipede/backend/s3"
)

// All returns every kind. The caller owns the slice.
func All() backend.Kinds {
	return slices.Concat(backend.Own(), backend.Kinds{
		azurerm.Kind(),
		consul.Kind(),
		cos.Kind(),
		gcs.Kind(),
		httpbackend.Kind(),
		kubernetes.Kind(),
		oss.Kind(),
		pg.Kind(),
		s3.Kind(),
		remote.Cloud(),
		remote.Remote(),
	})
}
