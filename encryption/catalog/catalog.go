// Package catalog lists the kinds of key providers that use key services.
//
// A new key provider is a package of its own below encryption, and a line here. There is no registration at
// run time.
package catalog

import (
	"github.com/millipede-iac/millipede/encryption"
	"github.com/millipede-iac/millipede/encryption/awskms"
	"github.com/millipede-iac/millipede/encryption/azurevault"
	"github.com/millipede-iac/millipede/encryption/gcpkms"
	"github.com/millipede-iac/millipede/encryption/openbao"
)

// All returns every kind. The caller owns the slice.
func All() []*encryption.Kind {
	return []*encryption.Kind{awskms.Kind(), azurevault.Kind(), gcpkms.Kind(), openbao.Kind()}
}
