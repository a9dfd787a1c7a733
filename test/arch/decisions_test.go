package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two decisions had the same number, so references to the number were ambiguous; one decision was not in the list.
func TestEachDecisionHasANumberOfItsOwnAndALineInTheList(t *testing.T) {
	files, err := filepath.Glob("../../docs/adr/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	list, err := os.ReadFile("../../docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		number, _, _ := strings.Cut(name, "-")
		if other, taken := names[number]; taken {
			t.Errorf("%s and %s have the same number", other, name)
		}
		names[number] = name
		if !strings.Contains(string(list), "["+number+"]("+name+")") {
			t.Errorf("the list does not have %s", name)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# "+number+": ") {
			t.Errorf("%s does not begin with its number", name)
		}
	}
}
