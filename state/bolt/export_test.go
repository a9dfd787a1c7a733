package bolt

import (
	"errors"

	"go.etcd.io/bbolt"
)

// Check checks the whole file for damage.
func (s *Store) Check() error {
	return s.view(func(tx *bbolt.Tx) error {
		var all []error
		for err := range tx.Check() {
			all = append(all, err)
		}
		return errors.Join(all...)
	})
}

// Path returns the path of the store.
func (s *Store) Path() string { return s.path }
