package system

import (
	"strings"
	"syscall"
	"testing"

	"github.com/millipede-iac/millipede/test/stage/site"
)

const tested = site.FleetOnly + `
variable "create_ms" {
  default = 0
}
resource "fleet_machine" "a" {
  name      = "a"
  create_ms = var.create_ms
}
resource "fleet_machine" "b" {
  name = "b-${fleet_machine.a.name}"
}
output "id" {
  value = fleet_machine.b.id
}
`

func TestTestsGoThroughWorkersAndLeaveNothing(t *testing.T) {
	t.Parallel()
	for sentence, remote := range map[string]bool{"in one process": false, "over a server with two workers": true} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, tested)
			if remote {
				s.Server()
				s.Worker("default")
				s.Worker("default")
			}
			s.Write("real.tftest.hcl", `
run "makes" {
  assert {
    condition     = output.id != "" && fleet_machine.a.name == "a"
    error_message = "not made"
  }
}
run "keeps" {
  command = plan
  assert {
    condition     = fleet_machine.b.id != null
    error_message = "to be made again"
  }
}
`)
			s.Write("mocked.tftest.hcl", `
mock_provider "fleet" {
  mock_resource "fleet_machine" {
    defaults = { id = "m" }
  }
}
run "makes_nothing" {
  assert {
    condition     = output.id == "m"
    error_message = "the id is ${output.id}"
  }
}
`)
			s.Must("init")
			site.Wants(t, s.Must("test", "-no-color", "-filter=mocked.tftest.hcl"), "Success! 1 passed, 0 failed.")
			if calls := s.Calls("create", "delete", "read"); len(calls) > 0 {
				t.Errorf("a mocked provider was called: %v", calls)
			}
			site.Wants(t, s.Must("test", "-no-color"), "Success! 3 passed, 0 failed.")
			if made, gone := s.Finished("create"), s.Finished("delete"); made != 2 || gone != 2 {
				t.Errorf("%d machines were created, and %d destroyed", made, gone)
			}
			s.OnceEach("create")
		})
	}
}

// slowly is a test file with a run that takes long, and another run after it.
const slowly = `
run "slow" {
  variables {
    create_ms = 3000
  }
}
run "later" {}
`

func TestAnInterruptedTestEndsItsRunAndCleansUp(t *testing.T) {
	t.Parallel()
	s := site.New(t, tested)
	s.Write("a.tftest.hcl", slowly)
	s.Must("init")
	p := s.Start("test", "-no-color", "-junit-xml=report.xml")
	site.Eventually(t, "a machine is being created", func() bool { return s.Begun("create") > 0 })
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	// All executed runs have passed, but one was not executed: a pipeline must not take that for a success.
	if code := site.Exit(t, p); code != 1 {
		t.Errorf("exit status %d of a suite that was interrupted, want 1", code)
	}
	if made, gone := s.Finished("create"), s.Finished("delete"); made != 2 || gone != 2 {
		t.Errorf("%d machines were created, and %d destroyed", made, gone)
	}
	site.Wants(t, s.Read("report.xml"), `<testsuite name="a.tftest.hcl" tests="2" skipped="1" failures="0" errors="0">`)
}

func TestATestThatIsInterruptedTwiceListsTheObjectsThatItLeaves(t *testing.T) {
	t.Parallel()
	s := site.New(t, strings.Replace(tested, "name      = \"a\"", "name      = \"a\"\n  depends_on = [fleet_machine.first]", 1)+`
resource "fleet_machine" "first" {
  name = "first"
}
`)
	s.Write("a.tftest.hcl", strings.Replace(slowly, "3000", "120000", 1))
	s.Must("init")
	p := s.Start("test", "-json")
	site.Eventually(t, "the second machine is being created", func() bool {
		return s.Begun("create") == 2 &&
			s.Finished("create") == 1
	})
	for range 2 {
		before := strings.Count(p.Output(), "nterrupt")
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		site.Eventually(t, "the command has received the interrupt",
			func() bool { return strings.Count(p.Output(), "nterrupt") > before })
	}
	if code := site.Exit(t, p); code != 1 {
		t.Errorf("exit status %d", code)
	}
	site.Wants(t, p.Output(), `"test_interrupt":{`, `"instance":"fleet_machine.first"`, `"planned":[`)
	site.Wants(t, s.Read("errored_test.tfstate"), `"name": "first"`)
}
