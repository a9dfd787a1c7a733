package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
)

// hexadecimal is a command that makes a password of hexadecimal digits.
var hexadecimal = regexp.MustCompile(`"[^"]*\$\((?:openssl rand -hex|od -An)`)

// NATS parses the value of a variable as if it stood in its configuration. A password of digits is read as a number,
// and "2e" is one with a unit: the user then cannot sign in, or the server does not start. Commands in documents
// made such passwords.
func TestPasswordsThatAreProposedAreTextForNATS(t *testing.T) {
	const variable = "MILLIPEDE_TEST_PASSWORD"
	read := func(password string) any {
		t.Setenv(variable, password)
		all, err := conf.Parse("password: $" + variable)
		if err != nil {
			return err
		}
		return all["password"]
	}
	digits := []string{strings.Repeat("1234", 8), strings.Repeat("12", 9), "2e", "2eb", "7e" + strings.Repeat("1", 30)}
	for _, d := range digits[:4] {
		if text, is := read(d).(string); is {
			t.Errorf("%s is the text %q for NATS: this test tests nothing", d, text)
		}
	}
	proposed := 0
	for _, root := range []string{"../docs", "."} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, line := range strings.Split(string(text), "\n") {
				command := hexadecimal.FindString(line)
				if command == "" || !strings.Contains(strings.ToLower(line), "password") {
					continue
				}
				proposed++
				begin := command[1:strings.LastIndex(command, "$(")]
				begin = begin[strings.LastIndex(begin, "=")+1:]
				for _, d := range digits {
					if got := read(begin + d); got != begin+d {
						t.Errorf("%s proposes %q: the password %s%s is %v (%[5]T) for NATS", path, line, begin, d, got)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if proposed < 4 {
		t.Errorf("only %d commands were found that make passwords", proposed)
	}
}
