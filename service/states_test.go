package service_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
)

func TestAStateFollowsTheCurrentOne(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	state := func(serial int, lineage, more string) []byte {
		return []byte(strings.NewReplacer("SERIAL", string(rune('0'+serial)), "LINEAGE", lineage, "MORE", more).Replace(
			`{"version":4,"serial":SERIAL,"lineage":"LINEAGE","outputs":{"s":{"value":"x","type":"string","sensitive":true}},` +
				`"resources":[{"mode":"managed","instances":[{},{}]}],"more":"MORE"}`))
	}
	push := func(serial int, lineage, more string, force bool) error {
		data := state(serial, lineage, more)
		_, err := h.States.Create(h.Admin, w.ID, service.NewState{
			Serial: uint64(serial), Lineage: lineage, MD5: service.Sum(data), State: data, Force: force, //nolint:gosec // small
		})
		return err
	}
	if err := push(1, "l", "", false); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("without a lock: %v", err)
	}
	if _, err := h.Workspaces.Lock(h.Admin, w.ID, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		err    error
		refuse bool
	}{
		{"the first", push(2, "l", "", false), false},
		{"the same again", push(2, "l", "", false), false},
		{"another with its serial", push(2, "l", "other", false), true},
		{"a lower serial", push(1, "l", "", false), true},
		{"another lineage", push(3, "other", "", false), true},
		{"a gap", push(7, "l", "", false), false},
		{"forced", push(3, "other", "", true), false},
	} {
		if errors.Is(c.err, tables.ErrConflict) != c.refuse || !c.refuse && c.err != nil {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
	data := state(9, "other", "")
	v, err := h.States.Create(h.Admin, w.ID, service.NewState{Serial: 9, Lineage: "other", MD5: service.Sum(data)})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := h.States.Current(h.Admin, w.ID); err != nil || now.Serial != 3 {
		t.Errorf("before the content was uploaded: %+v, %v", now, err)
	}
	if err := h.States.Upload(v.Secret, strings.NewReader("something else"), -1); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("uploading another content: %v", err)
	}
	if err := h.States.Upload(v.Secret, bytes.NewReader(data), -1); !errors.Is(err, tables.ErrConflict) {
		t.Errorf("uploading the content of a discarded version: %v", err)
	}
	now, err := h.States.Current(h.Admin, w.ID)
	if err != nil || now.Serial != 3 || now.Resources != 2 || !now.Outputs[0].Sensitive {
		t.Errorf("%+v, %v", now, err)
	}
	if got, _, err := h.StateText(h.Admin, now.ID); err != nil || !bytes.Equal(got, state(3, "other", "")) {
		t.Errorf("%q, %v", got, err)
	}
	if err := h.Workspaces.Delete(h.Admin, w.ID, true); !errors.Is(err, tables.ErrConflict) ||
		!strings.Contains(err.Error(), "locked") {
		t.Errorf("deleting a locked workspace: %v", err)
	}
}
