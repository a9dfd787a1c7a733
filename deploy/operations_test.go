package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const operations = "../docs/operations.md"

func TestEachAlertIsExplained(t *testing.T) {
	page, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("prometheus/millipede.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts were found", len(alerts))
	}
	known := map[string]bool{}
	for _, a := range alerts {
		known[a[1]] = true
		if !strings.Contains(string(page), "\n| `"+a[1]+"` | ") {
			t.Errorf("%s has no line for the alert %s", operations, a[1])
		}
	}
	for _, a := range regexp.MustCompile("(?m)^\\| `(Millipede\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if !known[a[1]] {
			t.Errorf("%s explains the alert %s, which does not exist", operations, a[1])
		}
	}
}

// Whoever follows the page in an emergency knows which parts of it somebody has followed before.
func TestEachSectionOfOperationsNamesATestOrSaysThatThereIsNone(t *testing.T) {
	page, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(page), "\n## ")[1:]
	if len(sections) < 9 {
		t.Fatalf("only %d sections were found", len(sections))
	}
	for _, s := range sections {
		title, text, _ := strings.Cut(s, "\n")
		tests := regexp.MustCompile("`(Test\\w+)`\\s+in\\s+`([\\w/]+)`").FindAllStringSubmatch(text, -1)
		if len(tests) == 0 && !strings.Contains(text, "Not followed by a test") {
			t.Errorf("the section %q names no test, and does not say that there is none", title)
		}
		for _, test := range tests {
			if !declares(t, test[2], test[1]) {
				t.Errorf("the section %q names the test %s, which is not in %s", title, test[1], test[2])
			}
		}
	}
}

// declares reports whether the tests of a folder of the project have one of this name.
func declares(t *testing.T, folder, name string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", filepath.FromSlash(folder)), func(path string, d fs.DirEntry,
		err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		found = found || strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}
