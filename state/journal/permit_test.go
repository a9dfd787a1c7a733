package journal_test

import (
	"testing"

	"github.com/millipede-iac/millipede/state/journal"
)

func TestThePermitOfALimitWithSlashesIsFoundAgain(t *testing.T) {
	for _, limit := range []string{"default", "pool/eu", "aws/us-east-1/writes"} {
		if got, id, ok := journal.ParsePermit(journal.PermitName(limit, "run-3")); !ok || got != limit ||
			id != "run-3" {
			t.Errorf("%q: %q, %q, %v", limit, got, id, ok)
		}
	}
	if _, _, ok := journal.ParsePermit("default"); ok {
		t.Error("a name without a request is the name of a permit")
	}
}
