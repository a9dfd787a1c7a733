package coding_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/coding"
)

// The structs of two versions: the newer one has a field more at every end.
type (
	olderLeaf struct{ Name string }
	newerLeaf struct {
		Name string
		Size int64
	}
	olderTree struct {
		First  int
		At     time.Time
		Leaf   *olderLeaf
		Leaves []olderLeaf
		ByName map[string]olderLeaf
	}
	newerTree struct {
		First  int
		At     time.Time
		Leaf   *newerLeaf
		Leaves []newerLeaf
		ByName map[string]newerLeaf
		Bytes  []byte
		Sum    [4]byte
		Until  time.Time
		Ratio  float64
		Yes    bool
		Leaf2  newerLeaf
		Any    map[string]*newerLeaf
	}
)

// The decoder refused an array that has another number of elements than its struct has fields, so no message could
// gain a field: not even those of the engines, whose page promised it.
func TestAMessageMayHaveMoreFieldsOrFewerThanItsStruct(t *testing.T) {
	at := time.Unix(1_800_000_000, 7)
	older := olderTree{7, at, &olderLeaf{"a"}, []olderLeaf{{"b"}, {"c"}}, map[string]olderLeaf{"d": {"e"}}}
	newer := newerTree{First: 7, At: at, Leaf: &newerLeaf{"a", 1}, Leaves: []newerLeaf{{"b", 2}, {"c", 3}},
		ByName: map[string]newerLeaf{"d": {"e", 4}}, Bytes: []byte{1}, Sum: [4]byte{2}, Until: at, Ratio: 0.5, Yes: true,
		Leaf2: newerLeaf{"f", 5}, Any: map[string]*newerLeaf{"g": {"h", 6}, "i": nil}}

	var got olderTree
	if err := coding.Unmarshal(coding.Marshal(newer), 8, &got); err != nil || !reflect.DeepEqual(got, older) {
		t.Errorf("an older program reads %+v, %v", got, err)
	}
	want := newerTree{First: 7, At: at, Leaf: &newerLeaf{Name: "a"}, Leaves: []newerLeaf{{Name: "b"}, {Name: "c"}},
		ByName: map[string]newerLeaf{"d": {Name: "e"}}}
	var back newerTree
	if err := coding.Unmarshal(coding.Marshal(older), 8, &back); err != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("a newer program reads %+v, %v", back, err)
	}
}

func TestAMessageOfOtherTypesIsRefusedWhateverItsLength(t *testing.T) {
	for name, message := range map[string]any{
		"a text for a number":  []any{"x"},
		"a number for a leaf":  []any{1, nil, 3},
		"a number for a list":  []any{1, nil, nil, 4, nil, nil, nil, nil, nil, nil, nil, nil, nil},
		"a map with a text":    map[string]any{"First": "x"},
		"a list within a leaf": []any{1, nil, []any{[]any{}}},
	} {
		var got newerTree
		if err := coding.Unmarshal(coding.Marshal(message), 8, &got); err == nil {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}
