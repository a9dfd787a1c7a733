package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/millipede-iac/millipede/service/store"
)

func TestAPartOfAFileIsReadWithoutTheRest(t *testing.T) {
	s := open(t)
	var whole bytes.Buffer
	for whole.Len() < 300_000 {
		fmt.Fprintf(&whole, "%d,", whole.Len())
	}
	if _, err := s.Write("x/y", bytes.NewReader(whole.Bytes()), 1<<20); err != nil {
		t.Fatal(err)
	}
	for _, at := range [][2]int64{{0, 10}, {65_530, 20}, {65_536, 65_536}, {70_000, 200_000},
		{int64(whole.Len()) - 1, 1}, {100, 0}} {
		got, err := s.ReadPart("x/y", at[0], at[1])
		if err != nil || !bytes.Equal(got, whole.Bytes()[at[0]:at[0]+at[1]]) {
			t.Errorf("%d bytes at %d: %d bytes, %v", at[1], at[0], len(got), err)
		}
	}
	if _, err := s.ReadPart("x/y", int64(whole.Len())-1, 2); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading after the end: %v", err)
	}
	if _, err := s.ReadPart("x/none", 0, 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("reading a file that does not exist: %v", err)
	}
}
