// Package catalog lists the kinds of backends.
//
// A new backend is a package of its own below state/snapshot, and a line here. There is no registration at run
// time.
package catalog

import (
	"slices"

	"github.com/millipede-iac/millipede/state/snapshot"
	"github.com/millipede-iac/millipede/state/snapshot/azurestore"
	"github.com/millipede-iac/millipede/state/snapshot/consulstore"
	"github.com/millipede-iac/millipede/state/snapshot/cosstore"
	"github.com/millipede-iac/millipede/state/snapshot/gcsstore"
	"github.com/millipede-iac/millipede/state/snapshot/httpstore"
	"github.com/millipede-iac/millipede/state/snapshot/kubestore"
	"github.com/millipede-iac/millipede/state/snapshot/ossstore"
	"github.com/millipede-iac/millipede/state/snapshot/pgstore"
	"github.com/millipede-iac/millipede/state/snapshot/s3store"
	"github.com/millipede-iac/millipede/state/snapshot/tfcstore"
)

// All returns every kind. The caller owns the slice.
func All() snapshot.Kinds {
	return slices.Concat(snapshot.Own(), snapshot.Kinds{
		azurestore.Kind(),
		consulstore.Kind(),
		cosstore.Kind(),
		gcsstore.Kind(),
		httpstore.Kind(),
		kubestore.Kind(),
		ossstore.Kind(),
		pgstore.Kind(),
		s3store.Kind(),
		tfcstore.Cloud(),
		tfcstore.Remote(),
	})
}
