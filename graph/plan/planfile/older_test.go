package planfile

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// testdata/format1.plan was saved by the last version that wrote format 1: two instances of a resource, a module, a
// check and an output. None of the objects existed.
func format1(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/format1.plan")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAPlanInTheFormerFormatIsRefused(t *testing.T) {
	_, err := Decode(format1(t))
	var other *VersionError
	if !errors.As(err, &other) || other.Found != "1" || other.Engine != "" {
		t.Error(err)
	}
}

func TestARecordedPlanInTheFormerFormatSaysWhichObjectsItIsAbout(t *testing.T) {
	s, err := DecodeRecorded(format1(t))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Older {
		t.Error("it does not say that it is older")
	}
	var objects []string
	for i, v := range s.Plan.Graph.Vertices {
		switch {
		case v.Change >= 0:
			objects = append(objects, string(s.Plan.Changes[v.Change].Action)+" "+v.Address)
			if s.Plan.Hidden(i) {
				t.Errorf("%s is hidden", v.Address)
			}
		case v.Kind != plan.Sync || v.Node != (plan.Node{}):
			t.Errorf("%s is to be evaluated, and has no name: %+v", v.Address, v)
		}
	}
	slices.Sort(objects)
	if want := []string{"create terraform_data.a[0]", "create terraform_data.a[1]"}; !slices.Equal(objects, want) {
		t.Errorf("it is about %q, want %q", objects, want)
	}
	if len(s.Plan.Graph.Edges) == 0 || len(s.Config.Files) != 2 {
		t.Errorf("%d edges and %d files were read", len(s.Plan.Graph.Edges), len(s.Config.Files))
	}
}

func TestAnOlderPlanIsNotSavedAgain(t *testing.T) {
	s, err := DecodeRecorded(format1(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Encode(s); err == nil {
		t.Error("it was saved without what the older format leaves out")
	}
}
