package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

// keeper is a valid configuration. Each test of bad input applies it first, and checks at the end that its object is
// unchanged.
const keeper = site.FleetOnly + `
resource "fleet_machine" "kept" {
  name = "kept"
}
`

// applied returns a site in which keeper has been applied.
func applied(t *testing.T) *site.Site {
	t.Helper()
	s := site.New(t, keeper)
	s.Must("init")
	s.Must("apply", "-auto-approve", "-no-color")
	return s
}

// nothingLost repairs the configuration of a site, and checks that the object of keeper is still there, unchanged.
func nothingLost(s *site.Site) {
	s.T.Helper()
	s.Write("main.tf", keeper)
	s.Unchanged()
	s.OnceEach("create")
	if n := s.Begun("delete") + s.Begun("update"); n > 0 {
		s.T.Errorf("%d objects were changed", n)
	}
	if after := s.State(); len(after.Objects) != 1 || after.Objects[0].Address != "fleet_machine.kept" {
		s.T.Errorf("the state holds %v", after.Objects)
	}
	s.Agree()
}

func TestBadConfigurationIsShownAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := applied(t)
	for claim, bad := range map[string]struct {
		configuration string
		want          []string // texts in the output of plan and apply
	}{
		"a broken file": {
			keeper + "resource \"fleet_machine\" \"b\" {\n  name = \n}\n",
			[]string{"Error: Invalid expression", `on main.tf line 12, in resource "fleet_machine" "b":`,
				"12:   name = "},
		},
		"an unclosed block": {
			keeper + "resource \"fleet_machine\" \"b\" {\n  name = \"b\"\n",
			[]string{"Error: Unclosed configuration block", "on main.tf line 11", `11: resource "fleet_machine" "b" {`},
		},
		"an unknown attribute": {
			keeper + "resource \"fleet_machine\" \"b\" {\n  name   = \"b\"\n  colour = \"red\"\n}\n",
			[]string{"Error: Unsupported argument", `on main.tf line 13, in resource "fleet_machine" "b":`,
				`13:   colour = "red"`, `An argument named "colour" is not expected here.`},
		},
		"a missing attribute": {
			keeper + "resource \"fleet_machine\" \"b\" {\n}\n",
			[]string{"Error: Missing required argument", `on main.tf line 11, in resource "fleet_machine" "b":`,
				`The argument "name" is required, but no definition was found.`},
		},
		"a wrong type": {
			keeper + "resource \"fleet_machine\" \"b\" {\n  name      = \"b\"\n  create_ms = \"soon\"\n}\n",
			[]string{"Error: Incorrect attribute value type", `on main.tf line 13, in resource "fleet_machine" "b":`,
				`13:   create_ms = "soon"`, `Inappropriate value for attribute "create_ms": a number is required.`},
		},
		"an unknown resource type": {
			keeper + "resource \"fleet_submarine\" \"b\" {\n}\n",
			[]string{"Error: Invalid resource type", `on main.tf line 11, in resource "fleet_submarine" "b":`,
				`"fleet_submarine"`},
		},
		"a reference to nothing": {
			keeper + "resource \"fleet_machine\" \"b\" {\n  name = fleet_machine.nobody.name\n}\n",
			[]string{"Error: Reference to undeclared resource", `on main.tf line 12, in resource "fleet_machine" "b":`,
				`12:   name = fleet_machine.nobody.name`},
		},
		"a cycle": {
			keeper + "resource \"fleet_machine\" \"b\" {\n  name = fleet_machine.c.name\n}\nresource " +
				"\"fleet_machine\" \"c\" {\n  name = fleet_machine.b.name\n}\n",
			[]string{"Error: Cycle: ", "fleet_machine.b", "fleet_machine.c"},
		},
		"a provider that was never installed": {
			strings.Replace(keeper, "required_providers {", "required_providers {\n    legacy = { source = "+
				"\"millipede/legacy\" }", 1) + "resource \"legacy_item\" \"b\" {\n  name = \"b\"\n}\n",
			[]string{"Error: Inconsistent dependency lock file", "registry.opentofu.org/millipede/legacy", "init"},
		},
	} {
		s.Write("main.tf", bad.configuration)
		for _, command := range [][]string{{"plan", "-no-color"}, {"apply", "-auto-approve", "-no-color"}} {
			r := s.Run(command...)
			if r.Code != 1 {
				t.Errorf("%s: %s has exit status %d", claim, command[0], r.Code)
			}
			for _, part := range bad.want {
				if !strings.Contains(r.Text, part) {
					t.Errorf("%s: the output of %s does not contain %q:\n%s", claim, command[0], part, r.Text)
				}
			}
		}
	}
	nothingLost(s)
}

func TestAProviderThatDoesNotExistFailsInit(t *testing.T) {
	t.Parallel()
	s := site.New(t, strings.Replace(keeper, "millipede/fleet\"", "millipede/absent\"", 1))
	r := s.Run("init", "-no-color")
	if r.Code != 1 {
		t.Errorf("exit status %d", r.Code)
	}
	site.Wants(t, r.Text, "Error: Failed to query available provider packages", "millipede/absent")
}

func TestAnUnreachableServerIsNamed(t *testing.T) {
	t.Parallel()
	s := applied(t)
	s.NATS = "nats://127.0.0.1:1"
	r := s.Run("apply", "-auto-approve", "-no-color")
	if r.Code != 1 {
		t.Errorf("exit status %d", r.Code)
	}
	site.Wants(t, r.Text, "Error: ", "NATS", "nats://127.0.0.1:1")
	s.NATS = ""
	nothingLost(s)
}

func TestADamagedStoreIsNotUsed(t *testing.T) {
	t.Parallel()
	s := applied(t)
	store := filepath.Join(s.Dir, ".millipede", "states", "default-7051da70101c9426", "state.db")
	whole, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	for claim, damaged := range map[string][]byte{
		"cut off after its first page": whole[:4096],
		"cut off after its fifth page": whole[:5*4096],
		"cut off in the first page":    whole[:100],
		"overwritten at its beginning": append([]byte(strings.Repeat("damage! ", 1024)), whole[8192:]...),
		"something else altogether":    []byte("this is no store\n"),
		"overwritten from end to end":  []byte(strings.Repeat("damage! ", len(whole)/8)),
		"overwritten behind its header": append(append([]byte{}, whole[:8192]...),
			strings.Repeat("damage! ", (len(whole)-8192)/8)...),
	} {
		if err := os.WriteFile(store, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r := s.Run("apply", "-auto-approve", "-no-color")
		if r.Code != 1 || !strings.Contains(r.Text, "Error: ") || !strings.Contains(r.Text, "state.db") ||
			strings.Contains(r.Text, "goroutine ") {
			t.Errorf("a store %s: exit status %d\n%s", claim, r.Code, site.Tail(r.Text))
		}
		if after, err := os.ReadFile(store); err != nil || string(after) != string(damaged) {
			t.Errorf("a store %s was changed (%v)", claim, err)
		}
	}
	if err := os.WriteFile(store, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	nothingLost(s)
}

func TestADamagedPageOfTheStoreIsNoticedOrWasNotUsed(t *testing.T) {
	t.Parallel()
	s := applied(t)
	store := filepath.Join(s.Dir, ".millipede", "states", "default-7051da70101c9426", "state.db")
	whole, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	noticed := 0
	for at := 0; at < len(whole); at += page {
		damaged := append([]byte{}, whole...)
		copy(damaged[at:at+page], strings.Repeat("damage! ", page/8))
		if err := os.WriteFile(store, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		switch r := s.Run("plan", "-no-color", "-detailed-exitcode"); {
		case r.Code == 0 && strings.Contains(r.Text, "No changes."):
		case r.Code == 1 && strings.Contains(r.Text, "Error: ") && !strings.Contains(r.Text, "goroutine "):
			noticed++
		default:
			t.Errorf("page %d is damaged: exit status %d\n%s", at/page, r.Code, site.Tail(r.Text))
		}
	}
	if noticed == 0 {
		t.Error("no damage was noticed")
	}
	if err := os.WriteFile(store, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	nothingLost(s)
}

func TestASecondProcessOnTheSameStateIsRefused(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(4, 20_000)) // three commands are to end before: they take seconds on a busy machine
	s.Must("init")
	first := s.Start("apply", "-auto-approve", "-no-color")
	site.Eventually(t, "the first apply creates", func() bool { return s.Begun("create") > 0 })
	for _, command := range [][]string{{"apply", "-auto-approve", "-no-color"}, {"plan", "-no-color"},
		{"destroy", "-auto-approve", "-no-color"}} {
		r := s.Run(command...)
		if r.Code != 1 {
			t.Errorf("%s beside an apply has exit status %d", command[0], r.Code)
		}
		site.Wants(t, r.Text, "Error: Error acquiring the state lock", "Lock Info:", "Who:")
	}
	site.Succeeds(t, first, "the first apply")
	s.CreatedOnce(4)
	s.Agree()
	s.Unchanged()
}

func TestASecondProcessWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	s := site.New(t, site.Slow(4, 1000))
	s.Must("init")
	first := s.Start("apply", "-auto-approve", "-no-color")
	site.Eventually(t, "the first apply creates", func() bool { return s.Begun("create") > 0 })
	site.Wants(t, s.Must("apply", "-auto-approve", "-no-color", "-lock-timeout=60s"), "No changes.")
	site.Succeeds(t, first, "the first apply")
	s.OnceEach("create")
	s.Agree()
}
