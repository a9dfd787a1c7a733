package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
)

// The commands with -ignore-remote-version set it in their estate, which does not exist while a line is completed:
// their completion panicked.
func TestTheOptionsOfEveryCommandAreCompleted(t *testing.T) {
	for _, c := range program().Commands {
		a := newApp(strings.NewReader(""), io.Discard, io.Discard, environ.Variables{"HOME=" + t.TempDir()})
		got := a.Complete(t.Context(), "coordinator "+c.Name+" -")
		if group := strings.HasSuffix(c.Name, "service") || c.Hidden; !group && !slices.Contains(got, "-help") {
			t.Errorf("%s: %q", c.Name, got)
		}
	}
}
