package provider

import (
	"context"
	"sync"
)

// DeferralReason is why a provider has put off an operation, in the words of a plan's JSON form.
type DeferralReason string

// The reasons that providers give.
const (
	NoDeferral            DeferralReason = ""
	UnknownReason         DeferralReason = "unknown"
	ResourceConfigUnknown DeferralReason = "resource_config_unknown"
	ProviderConfigUnknown DeferralReason = "provider_config_unknown"
	AbsentPrerequisite    DeferralReason = "absent_prereq"
)

// Deferral records whether the provider has put off one of the calls that were made with a context. It is safe for
// concurrent use.
type Deferral struct {
	mu     sync.Mutex
	reason DeferralReason
}

// Reason returns why the first of the calls that were put off was; NoDeferral if none was.
func (d *Deferral) Reason() DeferralReason {
	if d == nil {
		return NoDeferral
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason
}

// Record records that a call was put off.
func (d *Deferral) Record(why DeferralReason) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reason == NoDeferral {
		d.reason = why
	}
}

// AllowDeferral returns a context for calls that the provider may put off, because what they need is not known yet.
// What it answers then is what it knows. Without such a context a provider must not put anything off.
func AllowDeferral(ctx context.Context) (context.Context, *Deferral) {
	d := &Deferral{}
	return context.WithValue(ctx, deferralKey{}, d), d
}

// DeferralOf returns what AllowDeferral has returned for the context; nil if nothing may be put off.
func DeferralOf(ctx context.Context) *Deferral {
	d, _ := ctx.Value(deferralKey{}).(*Deferral)
	return d
}

type deferralKey struct{}
