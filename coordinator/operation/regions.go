package operation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// storesUnclear is the error if it cannot be told where the messages of pools are stored.
func storesUnclear(err error) diag.List {
	return diag.Errors("The message stores of pools are not clear", fmt.Sprintf("%s.\n\nNothing was started: an "+
		"operation could be begun twice if two stores had its register.", upper(err.Error())), nil)
}

// sameStores checks that the pools have the message stores that they had when the run began: in another one, nothing
// would be known of the operations of the run.
func (s *Session) sameStores(ctx context.Context, r journal.Run) diag.List {
	now, err := s.Hub.Domains(ctx)
	if err != nil {
		return storesUnclear(err)
	}
	both := maps.Clone(r.Domains)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, now)
	var diags diag.List
	for _, pool := range slices.Sorted(maps.Keys(both)) {
		if r.Domains[pool] == now[pool] {
			continue
		}
		back := fmt.Sprintf("%s pools set %s -domain=%s", diag.Program(), pool, r.Domains[pool])
		diags = diags.Append(diag.New(diag.Error, "The message store of a pool was changed", fmt.Sprintf("When the run %s "+
			"began, the message store of the pool %q was %s, and now it is %s. The registers of the run's operations may "+
			"be in the former one. Resume or cancel the run after setting the pool back: %s", r.ID, pool,
			storeOf(r.Domains[pool]), storeOf(now[pool]), back), nil))
	}
	return diags
}

// storeOf names a store in a sentence.
func storeOf(domain string) string {
	if domain == "" {
		return "that of the hub"
	}
	return fmt.Sprintf("the domain %q", domain)
}
