package providers

import (
	"fmt"

	"github.com/millipede-iac/millipede/internal/pattern"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// platformName is the form of a platform.
var platformName = pattern.Lazy(`^[a-z0-9]+_[a-z0-9]+$`)

// CheckPlatforms reports invalid platforms.
func CheckPlatforms(platforms []string) diag.List {
	var diags diag.List
	for _, p := range platforms {
		if !platformName().MatchString(p) {
			diags = diags.Append(diag.New(diag.Error, "Invalid target platform",
				fmt.Sprintf("%q is not a platform: write the operating system and the architecture, such as linux_amd64.", p),
				nil))
		}
	}
	return diags
}

// Only restricts the required providers to the named ones; without names, all stay.
func (o *Options) Only(names []string) diag.List {
	if len(names) == 0 {
		return nil
	}
	named := map[addr.Provider][]string{}
	var diags diag.List
	for _, name := range names {
		p, more := addr.ParseProviderSource(name)
		if diags = diags.Append(more); more.HasErrors() {
			continue
		}
		constraints, ok := o.Required[p]
		if !ok {
			diags = diags.Append(diag.New(diag.Error, "Invalid provider argument", fmt.Sprintf("The provider %s is "+
				"not required by the configuration.", p), nil))
			continue
		}
		named[p] = constraints
	}
	o.Required = named
	return diags
}
