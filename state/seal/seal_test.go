package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/millipede-iac/millipede/state/seal"
)

func key(t *testing.T) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAValueIsOpenedWithItsKeyAtItsPlaceAlone(t *testing.T) {
	k, place := key(t), []byte("here")
	sealed := k.Seal(place, []byte("hush"))
	if bytes.Contains(sealed, []byte("hush")) {
		t.Fatal("it is in the clear")
	}
	if bytes.Equal(sealed, k.Seal(place, []byte("hush"))) {
		t.Error("equal values are seen to be equal")
	}
	if v, err := k.Open(place, sealed); err != nil || string(v) != "hush" {
		t.Errorf("%q, %v", v, err)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1]++
	for what, open := range map[string]func() ([]byte, error){
		"another key":   func() ([]byte, error) { return key(t).Open(place, sealed) },
		"another place": func() ([]byte, error) { return k.Open([]byte("there"), sealed) },
		"a changed bit": func() ([]byte, error) { return k.Open(place, changed) },
		"a cut value":   func() ([]byte, error) { return k.Open(place, sealed[:10]) },
	} {
		if _, err := open(); !errors.Is(err, seal.ErrBroken) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestNothingAndAnEmptyValueStayApart(t *testing.T) {
	k := key(t)
	if v, err := k.Open(nil, nil); v != nil || err != nil {
		t.Errorf("nothing: %v, %v", v, err)
	}
	if v, err := k.Open(nil, k.Seal(nil, []byte{})); v == nil || len(v) != 0 || err != nil {
		t.Errorf("an empty value: %v, %v", v, err)
	}
}

func TestNoKeyLeavesValuesAsTheyAre(t *testing.T) {
	var k *seal.Key
	if v, err := k.Open(nil, k.Seal(nil, []byte("x"))); err != nil || string(v) != "x" {
		t.Errorf("%q, %v", v, err)
	}
}
