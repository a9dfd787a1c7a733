package migration

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/state"
)

// question is a question to the user, with its explanation. "yes" copies states.
type question struct{ text, what string }

// aboutAll asks whether the states of several workspaces are to be copied to a kind of backend.
func aboutAll(kind string, workspaces []string) question {
	return question{fmt.Sprintf("Do you want to migrate all workspaces to %q?", kind),
		fmt.Sprintf("The states of these workspaces are copied, and replace those that the new backend has for them: "+
			"%s. Enter \"yes\" to copy them all, and \"no\" to change nothing.", strings.Join(workspaces, ", "))}
}

// aboutOne asks whether the state of the only workspace is to be copied. there is the state that the new backend has
// for it; nil for none.
func aboutOne(workspace string, st, there *state.State) question {
	q := question{"Do you want to copy existing state to the new backend?", // programs look for these words
		fmt.Sprintf("The state of the workspace %q has %d resource(s). Enter \"yes\" to copy it, and \"no\" to begin "+
			"with an empty state.", workspace, len(st.Resources))}
	if there != nil && !there.IsEmpty() {
		q.what = fmt.Sprintf("The new backend has a state of the workspace %q already, with %d resource(s). Enter "+
			"\"yes\" to replace it with the present one, which has %d, and \"no\" to use the one that is there.", workspace,
			len(there.Resources), len(st.Resources))
	}
	return q
}

// aboutSelected asks whether the state of the selected workspace alone is to be copied, to a kind of backend without
// workspaces.
func aboutSelected(kind, workspace string) question {
	return question{fmt.Sprintf("The backend %q has no workspaces. Do you want to copy only the state of the selected "+
		"workspace?", kind), fmt.Sprintf("The state of the workspace %q becomes the only one of "+
		"the new backend. Those of the other workspaces stay where they are. Enter \"yes\" to copy it, and \"no\" to "+
		"change nothing.", workspace)}
}

// aboutService asks whether the state of a workspace is to be copied to a service. there is the state that the service
// has; nil for none.
func aboutService(workspace, where string, st, there *state.State) question {
	q := question{fmt.Sprintf("Do you want to copy the state of the workspace %q to %s?", workspace, where),
		"Enter \"yes\" to write it there and \"no\" to leave it where it is."}
	if there != nil && !there.IsEmpty() {
		q.what = fmt.Sprintf("There is already a state with %d resource(s). Enter \"yes\" to replace it with the "+
			"present one, which has %d, and \"no\" to use the existing one.", len(there.Resources), len(st.Resources))
	}
	return q
}
