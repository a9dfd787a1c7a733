package jet_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millipede-iac/millipede/wire/jet"
)

// A process that ends while it creates a stream leaves a folder without a description. The next command showed the
// server's message about that, even in output for programs.
func TestWhatAProcessWasAboutToMakeIsNotTalkedAbout(t *testing.T) {
	dir := t.TempDir()
	e := must(jet.Embed(dir, logTo(t)))(t)
	c := must(e.Connect(t.Context(), jet.Options{AckWait: ackWait, Log: logTo(t)}))(t)
	if err := c.PublishTask(t.Context(), attemptNo(1), []byte("task")); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	streams := must(filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "*")))(t)
	if len(streams) == 0 {
		t.Fatal("no stream was created")
	}
	put := func(path, text string) {
		t.Helper()
		file := filepath.Join(filepath.Dir(streams[0]), filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("begun/msgs/1.blk", "")
	put("described/meta.inf", "{}")
	put(filepath.Base(streams[0])+"/obs/begun/meta.inf", "{}")
	put("damaged/msgs/1.blk", "messages")

	var mu sync.Mutex
	var said []string
	again := must(jet.Embed(dir, func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	}))(t)
	closeAll(t, again)
	mu.Lock()
	defer mu.Unlock()
	if len(said) != 1 || !strings.Contains(said[0], "damaged") {
		t.Errorf("the server logged %q", said)
	}
	for _, s := range streams {
		if _, err := os.Stat(filepath.Join(s, "meta.inf")); err != nil {
			t.Error(err)
		}
	}
}
