package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
)

func TestAnActionAndItsTriggersAreDecoded(t *testing.T) {
	tree, diags := load(map[string]string{"main.tf": `
action "test_send" "a" {
  for_each = toset(["x"])
  provider = test.west
  config {
    text = each.key
  }
}
resource "test_thing" "r" {
  lifecycle {
    action_trigger {
      events     = [after_create, after_update]
      condition  = var.c
      actions    = [action.test_send.a["x"], action.test_send.a[each.key]]
      on_failure = taint
    }
    action_trigger {
      events  = [before_destroy]
      actions = [action.test_send.a["x"]]
    }
  }
}
variable "c" {}
`})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	m := tree.Root.Module
	a := m.Resources[addr.Resource{Mode: addr.Action, Type: "test_send", Name: "a"}]
	if a == nil || a.ForEach == nil || a.Provider.String() != "test.west" || a.ConfigRange == a.Range {
		t.Errorf("the action is %+v", a)
	}
	list := m.Resources[addr.Resource{Mode: addr.Managed, Type: "test_thing", Name: "r"}].Triggers
	if len(list) != 2 || !slices.Equal(list[0].Events, []ActionEvent{AfterCreate, AfterUpdate}) ||
		list[0].OnFailure != Taint || list[0].Condition == nil || len(list[0].Actions) != 2 ||
		!list[1].Events[0].Before() || list[1].OnFailure != Halt {
		t.Errorf("the triggers are %+v", list)
	}
}

func TestMistakesInActionsAndTriggersAreErrors(t *testing.T) {
	trigger := func(text string) string {
		return "resource \"test_thing\" \"r\" {\n lifecycle {\n  action_trigger {\n" + text + "\n  }\n }\n}"
	}
	const good = "events = [after_create]\nactions = [action.test_send.a]\n"
	for sentence, c := range map[string]struct{ text, want string }{
		"an argument outside of config": {`action "test_send" "a" { text = "t" }`, "Unsupported argument"},
		"two config blocks":             {"action \"test_send\" \"a\" {\n config {}\n config {}\n}", "config"},
		"a life cycle":                  {"action \"test_send\" \"a\" {\n lifecycle {}\n}", "Unsupported block type"},
		"the same action twice":         {"action \"test_send\" \"a\" {}\naction \"test_send\" \"a\" {}", "Duplicate action"},
		"count and for_each":            {"action \"test_send\" \"a\" {\n count = 1\n for_each = {}\n}", "Invalid combination"},
		"no events":                     {trigger("actions = [action.test_send.a]"), "Missing required argument"},
		"an empty list of events": {
			trigger("events = []\nactions = [action.test_send.a]"), "No action trigger events"},
		"an unknown event": {
			trigger("events = [after_read]\nactions = [action.test_send.a]"), "Invalid action trigger event"},
		"the same event twice": {
			trigger("events = [after_create, after_create]\nactions = [action.test_send.a]"), "Duplicate action trigger event"},
		"no actions": {trigger("events = [after_create]\nactions = []"), "No actions to trigger"},
		"a resource instead of an action": {
			trigger("events = [after_create]\nactions = [test_thing.r]"), "Invalid action reference"},
		"an attribute of an action": {
			trigger("events = [after_create]\nactions = [action.test_send.a.x]"), "Invalid action reference"},
		"an expression": {
			trigger("events = [after_create]\nactions = [[action.test_send.a][0]]"), "Invalid action reference"},
		"an unknown mode": {trigger(good + "on_failure = ignore"), "Invalid on_failure"},
		"taint of what does not exist": {
			trigger("events = [before_create]\nactions = [action.test_send.a]\non_failure = taint"), "Invalid on_failure"},
		"a condition on the object before its change": {
			trigger("events = [before_create]\nactions = [action.test_send.a]\n" +
				"condition = test_thing.r.x"), "Invalid action trigger condition"},
		"data that triggers": {"data \"test_thing\" \"r\" {\n lifecycle {\n  action_trigger {\n" + good + "}\n }\n}",
			"Invalid action_trigger block"},
	} {
		_, diags := load(map[string]string{"main.tf": c.text})
		if !diags.HasErrors() || !strings.Contains(diags[0].Summary, c.want) {
			t.Errorf("%s: %v", sentence, diags)
		}
	}
}
