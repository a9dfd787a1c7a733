package service_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
)

func TestArchivesAreBounded(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	for what, data := range map[string][]byte{"no archive": []byte("hello"),
		"too large": bytes.Repeat([]byte("x"), 1<<20+1)} {
		c, err := h.Configurations.Create(h.Admin, w.ID, record.Configuration{Source: what})
		if err != nil {
			t.Fatal(err)
		}
		err = h.Configurations.Upload(c.Secret, bytes.NewReader(data), -1)
		if !errors.Is(err, tables.ErrInvalid) && !errors.Is(err, tables.ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := h.Runs.Create(h.Admin, w.ID, record.Run{Configuration: c.ID}); !errors.Is(err, tables.ErrInvalid) {
			t.Errorf("a run of %s: %v", what, err)
		}
	}
}
