package view

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
)

// eventWords say when an action is invoked.
var eventWords = map[string]string{
	string(config.BeforeCreate): "before %s is created", string(config.AfterCreate): "after %s was created",
	string(config.BeforeUpdate): "before %s is updated", string(config.AfterUpdate): "after %s was updated",
	string(config.BeforeDestroy): "before %s is destroyed", string(config.AfterDestroy): "after %s was destroyed",
}

// invocations writes the planned invocations of actions.
func (t *planText) invocations() {
	if len(t.plan.Invocations) == 0 {
		return
	}
	if t.plan.Errored {
		t.line("\nOpenTofu planned to invoke the following actions, but then encountered a problem:")
	} else {
		t.line("\nOpenTofu will invoke the following actions:")
	}
	for _, i := range t.plan.Invocations {
		t.line("")
		t.line(t.invocation(i))
	}
}

func (t *planText) invocation(i *plan.Invocation) string {
	when := "because of the option -invoke"
	if trigger := i.Trigger; trigger != nil {
		when = fmt.Sprintf(eventWords[trigger.Event], trigger.Resource)
		if trigger.Conditional {
			when += ", if the condition holds then"
		}
	}
	s := t.schemas.Resource(i.Provider.Provider, addr.Action, i.Addr.Resource.Type)
	p := pair{before: datumOf(cty.NullVal(i.Config.Type())), after: datumOf(i.Config), shown: everywhere}
	body := diffBody(p, blockOf(s)).text(0, deltaFormat{ink: t.Ink, reveal: t.Reveal, bare: true, whole: true})
	return fmt.Sprintf("%s  # %s%s will be invoked\n  # (%s)\n    action %q %q %s", t.Ink.on(boldCode), i.Addr,
		t.Ink.off(), when, i.Addr.Resource.Type, i.Addr.Resource.Name, strings.ReplaceAll(body, "\n", "\n    "))
}
