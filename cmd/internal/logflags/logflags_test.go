package logflags

import (
	"bytes"
	"encoding/json"
	"flag"
	"strings"
	"testing"
)

func TestOptionsSayWhatIsLoggedAndHow(t *testing.T) {
	for _, c := range []struct {
		options, wrong string
		lines          int
		json           bool
	}{
		{"", "", 2, false},
		{"-log-level=warn", "", 1, false},
		{"-log-level=debug -log-format=json", "", 3, true},
		{"-log-level=loud", "-log-level=loud", 0, false},
		{"-log-format=xml", "-log-format=xml", 0, false},
	} {
		var s Settings
		f := flag.NewFlagSet("x", flag.ContinueOnError)
		s.Flags(f)
		if err := f.Parse(strings.Fields(c.options)); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log, err := s.New(&out)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v", c.options, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("a", "run", "r")
		log.Info("b", "run", "r")
		log.Warn("c", "run", "r")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != c.lines {
			t.Errorf("%s: %d lines", c.options, len(lines))
		}
		var one struct{ Run string }
		if isJSON := json.Unmarshal([]byte(lines[0]), &one) == nil && one.Run == "r"; isJSON != c.json {
			t.Errorf("%s: %s", c.options, lines[0])
		}
	}
}
