package logging

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator"
)

func TestTheLogIsWhatTheEnvironmentAsksFor(t *testing.T) {
	for sentence, c := range map[string]struct {
		env             map[string]string
		core, plugins   bool // whether an error is logged
		debug, elseWarn bool // whether the engine logs details; whether something is wrong with the level
	}{
		"nothing is set": {},
		"empty variables are not set": {env: map[string]string{"TF_LOG": "", "TF_LOG_CORE": "",
			"TF_LOG_PROVIDER": ""}},
		"off is nothing": {env: map[string]string{"TF_LOG": "off"}},
		"TF_LOG is for both": {env: map[string]string{"TF_LOG": "debug"}, core: true,
			plugins: true, debug: true},
		"a level leaves out what is below": {env: map[string]string{"TF_LOG": "ERROR"}, core: true,
			plugins: true},
		"TF_LOG_CORE is for the engine alone": {env: map[string]string{"TF_LOG_CORE": "TRACE"},
			core: true, debug: true},
		"TF_LOG_PROVIDER is for plugins alone": {env: map[string]string{"TF_LOG_PROVIDER": "TRACE"},
			plugins: true},
		"they win over TF_LOG": {env: map[string]string{"TF_LOG": "TRACE", "TF_LOG_CORE": "OFF",
			"TF_LOG_PROVIDER": "WARN"}, plugins: true},
		"what is no level is everything, with a word": {env: map[string]string{"TF_LOG": "loud"}, core: true,
			plugins: true, debug: true, elseWarn: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out bytes.Buffer
			l := Open(func(k string) string { return c.env[k] }, &out)
			if got := strings.Contains(out.String(), "Invalid log level"); got != c.elseWarn {
				t.Errorf("a word about the level: %v", got)
			}
			said := func(say func()) bool {
				out.Reset()
				say()
				return out.Len() > 0
			}
			if got := said(func() { l.Core.Error("x") }); got != c.core {
				t.Errorf("the engine's log: %v", got)
			}
			if got := said(func() { l.Plugins.Error("x") }); got != c.plugins {
				t.Errorf("the plugins' log: %v", got)
			}
			if got := said(func() { l.Core.Debug("x") }); got != c.debug {
				t.Errorf("the engine's details: %v", got)
			}
			if got := l.Observe(coordinator.Both{}) != coordinator.Watcher(coordinator.Both{}); got != c.debug {
				t.Errorf("a run is logged: %v", got)
			}
		})
	}
}

func TestTheLogGoesToTheEndOfTheFileThatIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	l := Open(func(k string) string { return map[string]string{"TF_LOG": "json", "TF_LOG_PATH": file}[k] }, &out)
	l.Begin("1", "2", "plan", []string{"-no-color"})
	l.Plugins.Warn("from a plugin")
	if err := l.End(2); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if lines[0] != "before" || len(lines) != 6 || out.Len() > 0 {
		t.Fatalf("the file has %q, standard error %q", lines, &out)
	}
	for _, line := range lines[1:] {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["@level"] == nil ||
			entry["@message"] == nil || entry["@timestamp"] == nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestALogThatCannotBeOpenedGoesToStandardError(t *testing.T) {
	var out bytes.Buffer
	l := Open(func(k string) string {
		return map[string]string{"TF_LOG": "INFO", "TF_LOG_PATH": filepath.Join(t.TempDir(), "no", "log")}[k]
	}, &out)
	l.Begin("1", "2", "plan", nil)
	if text := out.String(); !strings.Contains(text, "Error opening log file") || !strings.Contains(text, "name=plan") {
		t.Errorf("standard error has %q", text)
	}
}

func TestWithoutALogThePathIsNotTouched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	Open(func(k string) string { return map[string]string{"TF_LOG_PATH": file}[k] }, &bytes.Buffer{})
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a log")
	}
}
