package migration

import (
	"strings"
	"testing"
)

func TestTheWorkspaceOfAServiceIsChosen(t *testing.T) {
	for sentence, c := range map[string]struct {
		names         string
		selected      string
		fixed, canAsk bool
		block         bool // "remote" is not integrated: it is a backend block
		want          choice
		err           string
	}{
		"it is there": {names: "a b", selected: "b", want: choice{}},
		"the environment names none": {names: "a b", selected: "c", fixed: true, canAsk: true,
			err: "Invalid workspace selection"},
		"there is only one":               {names: "a", selected: "c", want: choice{selects, "a"}},
		"there are several":               {names: "a b", selected: "c", canAsk: true, want: choice{does: asks}},
		"several, and nobody answers":     {names: "a b", selected: "c", err: `Currently selected workspace "c" does not`},
		"there is none":                   {selected: "c", canAsk: true, want: choice{does: creates}},
		"none, and nobody answers":        {selected: "c", err: "No existing workspaces"},
		"none, and it is a backend block": {selected: "c", canAsk: true, block: true, err: "No existing workspaces"},
	} {
		s := service{&place{cloud: !c.block}}
		got, diags := inService(s, strings.Fields(c.names), c.selected, c.fixed, c.canAsk)
		if got != c.want {
			t.Errorf("%s: %+v", sentence, got)
		}
		fails(t, diags, c.err)
	}
}

func TestTheWorkspaceOfABackendIsChosen(t *testing.T) {
	for sentence, c := range map[string]struct {
		names, selected string
		fixed, canAsk   bool
		want            choice
		err             string
	}{
		"it is there":                 {names: "default b", selected: "b", want: choice{}},
		"there is only one":           {names: "default", selected: "c", want: choice{selects, "default"}},
		"the environment names a new": {names: "default", selected: "c", fixed: true, want: choice{}},
		"there are several":           {names: "default b", selected: "c", canAsk: true, want: choice{does: asks}},
		"several, and nobody answers": {names: "default b", selected: "c", err: `Currently selected workspace "c" does not`},
		"several, and the environment names none": {names: "default b", selected: "c", fixed: true, canAsk: true,
			err: `Currently selected workspace "c" does not exist`},
	} {
		got, diags := inBackend(strings.Fields(c.names), c.selected, c.fixed, c.canAsk)
		if got != c.want {
			t.Errorf("%s: %+v", sentence, got)
		}
		fails(t, diags, c.err)
	}
}

func TestTheSelectedWorkspaceExistsAfterwards(t *testing.T) {
	for sentence, c := range map[string]struct {
		service *place // nil for a backend with the names
		names   string
		any     bool
		done    []string
	}{
		"any may be selected": {any: true},
		"the user chooses":    {names: "a b", done: []string{"choose in place of default: a b", "select b"}},
		"the block names one": {service: &place{kind: "tfe", name: "x", cloud: true},
			done: []string{"create tfe/x", "select x"}},
		"a backend block names one, which is called default here": {service: &place{kind: "tfe", name: "x"},
			done: []string{"create tfe/default"}},
		"the user names the first": {service: &place{kind: "tfe", cloud: true, tags: []string{"t"}},
			done: []string{"ask No workspaces found.", "create tfe/named", "select named"}},
		"the only one is selected": {service: &place{kind: "tfe", cloud: true, all: map[string][]byte{"y": nil}},
			done: []string{"select y"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDirectory(t)
			d.listed = Listed{Any: c.any, Names: strings.Fields(c.names)}
			if s := c.service; s != nil {
				if s.directory = d; s.all == nil {
					s.all = map[string][]byte{}
				}
				d.listed.Service = service{s}
			}
			fails(t, SelectExisting(t.Context(), d, d.options(true)), "")
			d.has(c.done...)
		})
	}
}
