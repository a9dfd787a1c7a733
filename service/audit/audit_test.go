package audit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
)

func TestWhatWasChangedAndRefusedIsInTheAuditLog(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	a := h.Member("ann", "read", w.ID)
	_ = h.Workspaces.Delete(a, w.ID, false)
	lines, err := h.Audit.Latest(h.Admin, 1)
	if err != nil || len(lines) != 1 || lines[0].Actor != "ann" || lines[0].Action != "workspace.delete" ||
		!strings.HasPrefix(lines[0].Outcome, "refused") || lines[0].From != "test" {
		t.Errorf("%+v, %v", lines, err)
	}
	if _, err := h.Audit.Latest(a, 1); !errors.Is(err, tables.ErrForbidden) {
		t.Error(err)
	}
}
