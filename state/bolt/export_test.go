package bolt

import (
	"errors"

	"github.com/millipede-iac/millipede/state/recorded"
)

// Check checks the whole file for damage.
func (s *Store) Check() error {
	return s.view(func(tx *recorded.Tx) error {
		return errors.Join(tx.Check()...)
	})
}

// Path returns the path of the store.
func (s *Store) Path() string { return s.path }
