package estate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/catalog"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
)

// backendRecordFile is the file in the data directory in which init records the backend. Its format is OpenTofu's, so
// that both programs can be used alternately.
type backendRecordFile struct {
	Version int               `json:"version"`
	Backend *migration.Record `json:"backend,omitempty"`
}

// recordName is the name of the record for messages, recordFile its path.
func (e *folder) recordName() string { return filepath.Join(e.dataName(), "terraform.tfstate") }

func (e *folder) recordFile() string { return e.path(e.recordName()) }

// readBackendRecord returns the record that init has written, or the zero record if there is none.
func (e *folder) readBackendRecord() (migration.Record, diag.List) {
	text, err := bounds.ReadFile(e.recordFile(), bounds.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return migration.Record{}, nil
	}
	var file backendRecordFile
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	switch {
	case err != nil:
		return migration.Record{}, diag.Errors("Error loading the backend configuration",
			fmt.Sprintf("The file %s, in which init has recorded the backend, cannot be read: %s. Remove the file and run "+
				"init again.", e.recordName(), err), nil)
	case file.Backend == nil:
		return migration.Record{}, nil
	}
	return *file.Backend, nil
}

// writeBackendRecord replaces the record. If the new record is the zero value and there is no file, it does nothing.
func (e *folder) writeBackendRecord(r migration.Record) error {
	file := backendRecordFile{Version: 3}
	if r.Type != "" {
		file.Backend = &r
	} else if !exists(e.recordFile()) {
		return nil
	}
	text, err := json.MarshalIndent(file, "", "    ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.dataDir(), 0o755); err != nil {
		return err
	}
	// The arguments may contain credentials.
	return wholefile.Write(e.recordFile(), wholefile.Private, wholefile.Bytes(append(text, '\n')))
}

// backendBlock returns the backend block of the root module, or its cloud block; nil if it has neither.
func backendBlock(root *config.Node) *config.Backend {
	switch {
	case root == nil:
		return nil
	case root.Module.Cloud != nil:
		return root.Module.Cloud
	}
	return root.Module.Backend
}

// findKind returns the kind of backend of a block.
func findKind(block *config.Backend) (*backend.Kind, diag.List) {
	kind, diags := catalog.All().Find(block.Type)
	if block.Type == backend.Cloud && !block.OwnBlock {
		diags = diag.Errors("Unsupported backend type", "There is no backend type named \"cloud\": to use a service, "+
			"write a cloud block instead of the backend block.", nil)
	}
	return kind, diags.WithSubject(block.TypeRange.Ptr())
}

// describeBackend returns the record of a block. own has the arguments in the block; others, from the command line,
// replace or complete them.
func describeBackend(block *config.Backend, own cty.Value, others map[string]cty.Value) (migration.Record, diag.List) {
	if !own.IsWhollyKnown() || marks.Has(own, marks.Sensitive) || marks.Has(own, marks.Ephemeral) {
		return migration.Record{}, diag.Errors("Invalid backend configuration",
			"The arguments of the backend are recorded in plain text, so they cannot be sensitive, ephemeral or "+
				"unknown.", &block.Range)
	}
	kind, diags := findKind(block)
	if diags.HasErrors() {
		return migration.Record{}, diags
	}
	located := func(diags diag.List) diag.List {
		return eval.AtSource(diags, block.Body).WithSubject(block.TypeRange.Ptr())
	}
	mine, more := kind.Decode(own)
	if diags = located(more); diags.HasErrors() {
		return migration.Record{}, diags
	}
	blockArgs := kind.Recorded(mine)
	all := own.AsValueMap()
	if all == nil {
		all = map[string]cty.Value{}
	}
	for name, v := range others {
		if _, ok := kind.Type().AttributeTypes()[name]; !ok {
			diags = diags.Append(diag.New(diag.Error, "Invalid backend configuration argument",
				fmt.Sprintf("The backend %q has no argument %q, which was given on the command line.",
					block.Type, name), nil))
			continue
		}
		all[name] = v
	}
	whole, more := kind.Decode(cty.ObjectVal(all))
	if diags = diags.Append(located(more)); diags.HasErrors() {
		return migration.Record{}, diags
	}
	value := kind.Recorded(whole)
	text, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return migration.Record{}, diags.Append(diag.New(diag.Error, "Invalid backend configuration",
			err.Error()+".", &block.Range))
	}
	hash := cty.TupleVal([]cty.Value{cty.StringVal(block.Type), blockArgs}).Hash()
	return migration.Record{Type: block.Type, Config: text, Hash: uint64(hash)}, diags
}

// preparedBackend returns the arguments of the backend that init has recorded for the block of the root module; block
// is nil if there is none. If the block has changed since init, it returns an error, because the state must be
// migrated first.
func (e *backends) preparedBackend(block *config.Backend, own cty.Value) (cty.Value, diag.List) {
	recorded, diags := e.readBackendRecord()
	if diags.HasErrors() {
		return own, diags
	}
	var now migration.Record
	reason, mark := "", "," // OpenTofu's summary has a comma in some cases and a colon in others
	if block != nil {
		if _, unknown := findKind(block); unknown.HasErrors() {
			return own, diag.Errors("Invalid backend type", unknown[0].Detail, block.TypeRange.Ptr())
		}
		now.Type = block.Type
		if recorded.Type != "" { // without a record, any block needs init, whatever its arguments
			if now, diags = describeBackend(block, own, nil); diags.HasErrors() {
				return own, diags
			}
		}
	}
	switch {
	case recorded.Type == now.Type && recorded.Hash == now.Hash, recorded.Same(now):
	case recorded.Type == "":
		reason = fmt.Sprintf("initial configuration of the requested backend %q", now.Type)
	case now.Type == "":
		reason = fmt.Sprintf("unsetting the previously set backend %q", recorded.Type)
	case now.Type != recorded.Type:
		reason, mark = fmt.Sprintf("the backend type changed from %q to %q", recorded.Type, now.Type), ":"
	default:
		reason, mark = "the backend block has changed", ":"
	}
	if reason != "" {
		what := "Backend"
		if now.Type == backend.Cloud {
			what, mark = "Cloud backend", ":"
		}
		return own, diag.Errors(what+" initialization required"+mark+" please run \""+diag.Program()+" init\"",
			"Reason: "+reason+
				".\n\nThe backend block says where the state is kept. After a change of the block, run init with "+
				"-migrate-state, which copies the state to the new backend, or with -reconfigure, which uses the state "+
				"that the new backend has. Nothing was changed so far.", nil)
	}
	if block == nil {
		return own, nil
	}
	args, err := recorded.Arguments()
	if err != nil {
		return own, diag.Errors("Error loading the backend configuration", fmt.Sprintf("The file %s, in which init has "+
			"recorded the backend, cannot be read: %s. Run init again.", e.recordName(), err), nil)
	}
	return args, nil
}
