package encryption

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/diag"
)

// Target is one kind of encrypted data: the state, the plan, the state that a data source reads. It is safe for
// concurrent use.
type Target struct {
	what    string
	setup   *setup
	methods []methodBlock // the one that encrypts, then the fallbacks
	primary method
	meta    metadata // of the keys of primary
}

// newTarget finds the methods of a target, and requests the keys of the one that encrypts.
func newTarget(ctx context.Context, s *setup, what string, enforced bool, t targetBlock) (*Target, diag.List) {
	target := &Target{what: what, setup: s, meta: metadata{}}
	var diags diag.List
	for at := &t; at != nil; at = at.Fallback {
		m, more := s.findMethod(at.Method)
		if diags = diags.Append(more); more.HasErrors() {
			break
		}
		target.methods = append(target.methods, m)
	}
	for _, m := range target.methods {
		if enforced && m.Type == unencryptedType {
			diags = diags.Append(diag.New(diag.Error, "Unencrypted method is forbidden",
				fmt.Sprintf("The %s is set to be encrypted always (enforced = true), so the method %q %q cannot be "+
					"used for it.", what, m.Type, m.Name), s.settings.at.Ptr()))
		}
	}
	if diags.HasErrors() {
		return nil, diags
	}
	primary, more := s.method(ctx, target.methods[0], nil, target.meta)
	target.primary = primary
	return target, diags.Append(more)
}

// findMethod returns the method to which an expression refers.
func (s *setup) findMethod(e hcl.Expression) (methodBlock, diag.List) {
	at := e.Range()
	traversal, problems := hcl.AbsTraversalForExpr(e)
	if problems.HasErrors() {
		var diags diag.List
		return methodBlock{}, diags.Append(problems)
	}
	typ, named, ok := address(traversal, "method")
	if !ok {
		return methodBlock{}, diag.Errors("Invalid encryption method identifier", "A method is named as "+
			"method.TYPE.NAME.", &at)
	}
	m, ok := s.settings.method(typ, named)
	if !ok {
		return methodBlock{}, diag.Errors("Reference to undeclared encryption method",
			fmt.Sprintf("The encryption block has no method %q %q.", typ, named), &at)
	}
	return m, nil
}

// address returns the type and the name in ROOT.TYPE.NAME.
func address(t hcl.Traversal, root string) (typ, named string, ok bool) {
	if len(t) != 3 || t.RootName() != root {
		return "", "", false
	}
	first, ok1 := t[1].(hcl.TraverseAttr)
	second, ok2 := t[2].(hcl.TraverseAttr)
	return first.Name, second.Name, ok1 && ok2
}

// version is the version of the envelope.
const version = "v0"

// metadata is the data from which key providers recover the key for decrypting, by their names.
type metadata map[string][]byte

// envelope is the form of encrypted data. The envelope of a state also has its unencrypted serial and lineage,
// which backends compare.
type envelope struct {
	Serial  *uint64  `json:"serial,omitempty"`
	Lineage *string  `json:"lineage,omitempty"`
	Meta    metadata `json:"meta"`
	Data    []byte   `json:"encrypted_data"`
	Version string   `json:"encryption_version"`
}

// identity is the serial and lineage of a state.
type identity struct {
	Serial  *uint64 `json:"serial"`
	Lineage string  `json:"lineage"`
	Engine  string  `json:"terraform_version"`
}

// IsEncrypted reports whether data is an envelope.
func IsEncrypted(data []byte) bool {
	if !bytes.Contains(data, []byte(`"encryption_version"`)) {
		return false // without decoding a state, which may be large
	}
	var e envelope
	return json.Unmarshal(data, &e) == nil && e.Version != ""
}

// Encrypts reports whether sealed data is really encrypted; false for a nil target.
func (t *Target) Encrypts() bool { return t != nil && t.methods[0].Type != unencryptedType }

func (t *Target) seal(ctx context.Context, data []byte, e envelope) ([]byte, error) {
	sealed, err := t.primary.seal(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("encryption failed for %s: %w", t.what, err)
	}
	e.Meta, e.Data, e.Version = t.meta, sealed, version
	return json.Marshal(e)
}

// SealState encrypts a state file.
func (t *Target) SealState(ctx context.Context, data []byte) ([]byte, error) {
	if !t.Encrypts() {
		return data, nil
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil {
		return nil, err
	}
	return t.seal(ctx, data, envelope{Serial: id.Serial, Lineage: &id.Lineage})
}

// Seal encrypts anything else.
func (t *Target) Seal(ctx context.Context, data []byte) ([]byte, error) {
	if !t.Encrypts() {
		return data, nil
	}
	return t.seal(ctx, data, envelope{})
}

// OpenState decrypts a state file. The first line of its errors has OpenTofu's wording, because it becomes a
// summary. stale means that SealState would write it differently now: it is unencrypted, or encrypted with a
// fallback.
func (t *Target) OpenState(ctx context.Context, data []byte) (plain []byte, stale bool, err error) {
	if t == nil {
		return data, false, nil
	}
	plain, stale, err = t.open(ctx, data, func() error {
		var id identity
		if err := json.Unmarshal(data, &id); err != nil {
			return err
		}
		if id.Engine == "" {
			// It becomes a summary, and has the words of OpenTofu.
			return errors.New("Given payload is not a state file")
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	var outside, inside identity
	if err := errors.Join(json.Unmarshal(data, &outside), json.Unmarshal(plain, &inside)); err != nil {
		return nil, false, err
	}
	switch {
	case outside.Serial != nil && inside.Serial != nil && *outside.Serial != *inside.Serial:
		return nil, false, fmt.Errorf("invalid state metadata, serial field mismatch %d vs %d", *outside.Serial,
			*inside.Serial)
	case outside.Lineage != "" && outside.Lineage != inside.Lineage:
		return nil, false, fmt.Errorf("invalid state metadata, linage field mismatch %v vs %v", outside.Lineage,
			inside.Lineage)
	}
	return plain, stale, nil
}

// Open decrypts the output of Seal. For data without an envelope, valid returns the reason why it is not valid
// unencrypted data.
func (t *Target) Open(ctx context.Context, data []byte, valid func() error) (plain []byte, stale bool, err error) {
	if t == nil {
		return data, false, nil
	}
	return t.open(ctx, data, valid)
}

func (t *Target) open(ctx context.Context, data []byte, valid func() error) ([]byte, bool, error) {
	var e envelope
	if broken := json.Unmarshal(data, &e); broken != nil || e.Version == "" {
		switch err := valid(); {
		case err != nil && broken != nil:
			return nil, false, fmt.Errorf("invalid data format for decryption: %w, %w", broken, err)
		case err != nil:
			return nil, false, fmt.Errorf("unable to determine data structure during decryption: %w", err)
		}
		for _, m := range t.methods {
			if m.Type == unencryptedType {
				return data, t.Encrypts(), nil
			}
		}
		return nil, false, errors.New("encountered unencrypted payload without unencrypted method configured")
	}
	if e.Version != version {
		return nil, false, fmt.Errorf("invalid encrypted payload version: %s != %s", e.Version, version)
	}
	failures := []error{errors.New("decryption failed for all provided methods")}
	for i, block := range t.methods {
		if block.Type == unencryptedType {
			continue
		}
		m, diags := t.setup.method(ctx, block, e.Meta, metadata{})
		if diags.HasErrors() {
			return nil, false, diags.Err()
		}
		plain, err := m.open(ctx, e.Data)
		if err == nil {
			return plain, i > 0, nil
		}
		failures = append(failures, fmt.Errorf("attempted decryption failed for %s: %w", t.what, err))
	}
	return nil, false, errors.Join(failures...)
}
