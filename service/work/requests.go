package work

import "github.com/millipede-iac/millipede/service/tables"

// Resolution is a person's statement about the outcome of an operation in doubt.
type Resolution struct {
	Address string
	// ID is the ID of the object that exists now. Empty: the operation never took place.
	ID string
}

// String describes the resolution for logs.
func (r Resolution) String() string {
	if r.ID == "" {
		return r.Address + " was not created"
	}
	return r.Address + " exists as " + r.ID
}

// ObjectChange is a change of some instances of a state, while runs may change others.
type ObjectChange struct {
	// ID identifies the change among the requests for locks, and Who says who makes it. The service sets both.
	ID, Who string
	// Operation is the command that makes the change, such as "state-mv".
	Operation string
	// Lineage and Serial identify the state version that the change was made for.
	Lineage string
	Serial  uint64
	// Removed are the addresses of removed instances. State is a state that has only the instances that are added or
	// changed, each as a whole; nil for none.
	Removed []string
	State   []byte
	// Wait is how long to wait for locks of the objects, at most, in seconds.
	Wait float64
}

// Refused is the error of a change of objects that runs have locked, or have changed since the change was made.
type Refused struct{ Reason string }

func (r *Refused) Error() string { return r.Reason }

// Unwrap returns ErrConflict.
func (r *Refused) Unwrap() error { return tables.ErrConflict }

// Found is an object that differs from the state. Attributes has the names of the attributes that differ,
// unless the object is gone.
type Found struct {
	Address    string
	Gone       bool
	Attributes []string
}
