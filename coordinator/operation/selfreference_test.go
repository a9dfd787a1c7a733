package operation_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/operation"
)

// A provisioner that referred to its object by the address made the object wait for itself: the plan had a cycle. With
// a splat, the object was not known yet when the provisioner was evaluated, so the run broke off.
func TestAProvisionerMayReferToItsObjectByTheAddress(t *testing.T) {
	for sentence, c := range map[string]struct{ count, command, want string }{
		"one object":      {``, `echo ${fake_thing.a.id}`, "id1\n"},
		"first of two":    {`count = 2`, `echo ${fake_thing.a[0].id}`, "id1\nid1\n"},
		"all, of one":     {`count = 1`, `echo ${join("", fake_thing.a[*].id)}`, "id1\n"},
		"by the key each": {`for_each = { x = "y" }`, `echo ${fake_thing.a[each.key].id}`, "id1\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			log := filepath.Join(t.TempDir(), "log")
			e.apply(block("a", c.count, `name = "a"`,
				`provisioner "local-exec" {`, `command = "`+c.command+` >> `+log+`"`, `}`))
			text, err := os.ReadFile(log)
			if err != nil || string(text) != c.want {
				t.Errorf("the provisioners have written %q, %v; want %q", text, err, c.want)
			}
		})
	}
}
