package migration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/diag"
)

func recordOf(typ, config string, hash uint64) Record {
	return Record{Type: typ, Config: json.RawMessage(config), Hash: hash}
}

func TestRecordsAreOfTheSameBackendIfTheirArgumentsAre(t *testing.T) {
	a := recordOf("s3", `{"bucket":"b","key":null,"tags":{"x":"y"}}`, 1)
	for sentence, c := range map[string]struct {
		o    Record
		same bool
	}{
		"a null argument is one that is not there": {recordOf("s3", `{"bucket":"b","tags":{"x":"y"}}`, 2), true},
		"an empty list is one that is not there": {
			recordOf("s3", `{"bucket":"b","tags":{"x":"y"},"blocks":[]}`, 1), true},
		"another value is another backend":     {recordOf("s3", `{"bucket":"c","tags":{"x":"y"}}`, 1), false},
		"another argument is another backend":  {recordOf("s3", `{"bucket":"b"}`, 1), false},
		"another type is another backend":      {recordOf("gcs", `{"bucket":"b","tags":{"x":"y"}}`, 1), false},
		"no block is another backend":          {Record{}, false},
		"a record that cannot be read differs": {recordOf("s3", `{`, 1), false},
	} {
		if a.Same(c.o) != c.same || c.o.Same(a) != c.same {
			t.Errorf("%s: %t, %t", sentence, a.Same(c.o), c.o.Same(a))
		}
	}
	if !(Record{}).Same(Record{Hash: 1}) || (Record{}).Kind() != "local" {
		t.Error("without a block, the backend is not the local one")
	}
	if _, diags := recordOf("s3", `{`, 1).Values(); !diags.HasErrors() {
		t.Error("a record that cannot be read has values")
	}
	if v, diags := (Record{}).Values(); diags.HasErrors() || v.LengthInt() > 0 {
		t.Errorf("without a block, the arguments are %#v", v)
	}
}

func TestInitDecidesByTheRecordAndTheOptions(t *testing.T) {
	none, a, b := Record{}, recordOf("s3", `{"bucket":"a"}`, 1), recordOf("s3", `{"bucket":"b"}`, 2)
	rewritten := recordOf("s3", `{"bucket":"a","key":null}`, 3)
	given := recordOf("s3", `{"bucket":"c"}`, 1) // the block of a, with an argument of the command line
	for sentence, c := range map[string]struct {
		was, now Record
		o        Options
		want     step
	}{
		"nothing has changed":                        {a, a, Options{Migrate: true}, keeps},
		"there was no block, and is none":            {none, none, Options{}, keeps},
		"an equivalent block":                        {a, rewritten, Options{}, records},
		"the arguments of an earlier init":           {given, a, Options{}, keeps},
		"other arguments of the command line":        {a, given, Options{Arguments: []string{"bucket=c"}}, refuses},
		"the first block":                            {none, a, Options{}, migrates},
		"another block":                              {a, b, Options{}, refuses},
		"the block was removed":                      {a, none, Options{}, refuses},
		"another block, -migrate-state":              {a, b, Options{Migrate: true}, migrates},
		"another block, -force-copy":                 {a, b, Options{Force: true}, migrates},
		"another block, -reconfigure":                {a, b, Options{Reconfigure: true}, adopts},
		"-reconfigure comes before -force-copy":      {a, b, Options{Reconfigure: true, Force: true}, adopts},
		"-reconfigure, although nothing has changed": {a, a, Options{Reconfigure: true}, adopts},
	} {
		if got := decide(c.was, c.now, c.o); got != c.want {
			t.Errorf("%s: step %d, not %d", sentence, got, c.want)
		}
	}
}

func TestStatesAreCopiedAsTheUserAgrees(t *testing.T) {
	const one = "ask Do you want to copy existing state to the new backend?"
	const all = `ask Do you want to migrate all workspaces to "s3"?`
	const alone = `ask The backend "s3" has no workspaces. Do you want to copy only the state of the selected workspace?`
	for sentence, c := range map[string]struct {
		local, remote []string // the workspaces with a state
		selected      string
		single        bool // the new backend has no workspaces
		former        bool // the local backend has a block
		answers       []bool
		force         bool
		done          []string
		err           string
	}{
		"nothing is there": {done: []string{"record s3"}},
		"one state, yes": {local: []string{"default"}, answers: []bool{true}, done: []string{one, "lock s3/default",
			"write s3/default serial 1", "unlock s3/default", "write local/default nothing", "record s3"}},
		"one state, no": {local: []string{"default"}, answers: []bool{false}, done: []string{one, "record s3"}},
		"one state, nobody answers": {local: []string{"default"}, done: []string{one},
			err: "Can't ask approval for state migration"},
		"one state, by force": {local: []string{"default"}, force: true, done: []string{"lock s3/default",
			"write s3/default serial 1", "unlock s3/default", "write local/default nothing", "record s3"}},
		"the same state is there": {local: []string{"default"}, remote: []string{"default"}, done: []string{"record s3"}},
		"the state of a block stays where it is": {local: []string{"default"}, former: true, answers: []bool{true},
			done: []string{"moving", one, "lock s3/default", "write s3/default serial 1", "unlock s3/default", "record s3"}},
		"several states, yes": {local: []string{"a", "b"}, answers: []bool{true}, done: []string{all,
			"lock s3/a", "create s3/a", "write s3/a serial 1", "unlock s3/a", "write local/a nothing",
			"lock s3/b", "create s3/b", "write s3/b serial 1", "unlock s3/b", "write local/b nothing", "record s3"}},
		"several states, no": {local: []string{"a", "b"}, answers: []bool{false}, done: []string{all},
			err: "Migration aborted by user."},
		"several states, nobody answers": {local: []string{"a", "b"}, err: "Error asking for state migration action"},
		"several states, one place": {local: []string{"a", "b"}, selected: "b", single: true, answers: []bool{true},
			done: []string{alone, "lock s3/default", "write s3/default serial 1", "unlock s3/default",
				"write local/b nothing", "select default", "record s3"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDirectory(t)
			d.wanted = recordOf("s3", `{}`, 1)
			d.add("local", c.local...)
			d.add("s3", c.remote...).none = c.single
			if c.former {
				d.recorded = recordOf("local", `{}`, 1)
			}
			if c.selected != "" {
				d.selected = c.selected
			}
			o := d.options(c.answers...)
			o.Force, o.Migrate = c.force, true
			change, diags := Prepare(t.Context(), d, o)
			fails(t, diags, c.err)
			d.has(c.done...)
			if change.Changed != (c.err == "") {
				t.Errorf("the change is %+v", change)
			}
		})
	}
}

func TestAStateWithARunThatWasCutOffIsNotCopied(t *testing.T) {
	d := newDirectory(t)
	d.add("local", "default")
	d.add("s3")
	d.wanted, d.cutOff = recordOf("s3", `{}`, 1), diag.Errors("A run was cut off", "", nil)
	_, diags := Prepare(t.Context(), d, d.options(true))
	fails(t, diags, "A run was cut off")
	d.has()
}

func TestReconfiguringCopiesNothing(t *testing.T) {
	d := newDirectory(t)
	d.add("local", "default")
	d.add("s3").none = true
	d.wanted, d.selected = recordOf("s3", `{}`, 1), "a"
	o := d.options()
	o.Reconfigure = true
	_, diags := Prepare(t.Context(), d, o)
	fails(t, diags, "")
	d.has("select default", "record s3") // the selected workspace cannot be there
}

func TestTheQuestionNamesTheStateThatIsReplaced(t *testing.T) {
	st, there := stateOf("l", 2), stateOf("m", 1)
	for _, c := range []struct {
		q    question
		want string
	}{
		{aboutOne("w", st, nil), `"w" has 1 resource(s). Enter "yes" to copy it, and "no" to begin with an empty state.`},
		{aboutOne("w", st, there), `The new backend has a state of the workspace "w" already, with 1 resource(s).`},
		{aboutService("w", "there", st, nil), `Enter "yes" to write it there`},
		{aboutService("w", "there", st, there), "There is already a state with 1 resource(s)."},
		{aboutAll("s3", []string{"a", "b"}), "replace those that the new backend has for them: a, b."},
		{aboutSelected("s3", "w"), `The state of the workspace "w" becomes the only one`},
	} {
		if !strings.Contains(c.q.what, c.want) || c.q.text == "" {
			t.Errorf("%s %s", c.q.text, c.q.what)
		}
	}
}
