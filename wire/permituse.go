package wire

import (
	"encoding/json"
	"fmt"
	"time"
)

// PermitUse says what a permit is held for, as the process that holds it says. It is for people.
type PermitUse struct {
	Limit string `json:"limit"`
	ID    string `json:"id"` // of the request
	// By is the person who has begun the run; empty if it is not known.
	By string `json:"by,omitempty"`
	// Pool and Address are those of the operation that began last under the permit, at Since; empty if there was none.
	Pool    string    `json:"pool,omitempty"`
	Address string    `json:"address,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// InDoubt says that the outcome of the operation is not known.
	InDoubt bool `json:"inDoubt,omitempty"`
}

// PermitTeller is implemented by transports over which others ask what the permits of this process are held for.
type PermitTeller interface {
	// OnPermitUses adds a function that returns what permits are held for, until remove is called. It is called on
	// goroutines of the transport, and must not call the transport.
	OnPermitUses(fn func() []PermitUse) (remove func())
}

// maxPermitUses is the most permits that an answer has.
const maxPermitUses = 2000

// EncodePermitUses returns the answer of a process to the question what its permits are held for.
func EncodePermitUses(uses []PermitUse) []byte {
	data, err := json.Marshal(uses[:min(len(uses), maxPermitUses)])
	if err != nil {
		panic("wire: a message does not encode: " + err.Error())
	}
	return data
}

// DecodePermitUses reads such an answer. Programs of versions that do not know the question answer something else.
func DecodePermitUses(data []byte) ([]PermitUse, error) {
	var uses []PermitUse
	if err := json.Unmarshal(data, &uses); err != nil {
		return nil, fmt.Errorf("reading what permits are held for: %w", err)
	}
	return uses[:min(len(uses), maxPermitUses)], nil
}
