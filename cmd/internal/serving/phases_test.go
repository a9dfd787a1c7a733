package serving

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
)

// A cloud's library that gets no credentials from an operation reads the environment of the process. It found the
// credentials of the service, and used them for anybody's runs.
func TestTheProcessOfAServiceForgetsWhatItsRunsDoNotSee(t *testing.T) {
	before := environ.Variables(os.Environ())
	t.Cleanup(func() {
		os.Clearenv()
		for _, entry := range before {
			name, value, _ := strings.Cut(entry, "=")
			if err := os.Setenv(name, value); err != nil {
				t.Error(err)
			}
		}
	})
	own := before.With("AWS_ACCESS_KEY_ID=canary", "GOOGLE_APPLICATION_CREDENTIALS=canary", "TZ=UTC")
	for _, entry := range own {
		name, value, _ := strings.Cut(entry, "=")
		if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := Forget(own); err != nil {
		t.Fatal(err)
	}
	seen := heritage(own)
	if got := os.Environ(); !slices.Equal(environ.Variables(got).Settled(), seen.Settled()) || os.Getenv("TZ") != "UTC" {
		t.Errorf("the process has %q, and its runs see %q", got, seen)
	}
}
