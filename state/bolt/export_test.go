package bolt

import (
	"errors"

	"go.etcd.io/bbolt"
)

// Check looks for damage in the whole file.
func (s *Store) Check() error {
	return s.view(func(tx *bbolt.Tx) error {
		var all []error
		for err := range tx.Check() {
			all = append(all, err)
		}
		return errors.Join(all...)
	})
}

// Path is where the store is.
func (s *Store) Path() string { return s.path }
