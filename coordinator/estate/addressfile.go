package estate

import (
	"strings"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/lang/diag"
)

// ReadAddressFiles appends the addresses in files to those on the command line. The files have one address per
// line; empty lines and comments (#) are ignored. path resolves the name of a file.
func ReadAddressFiles(addresses, files []string, path func(name string) string) ([]string, diag.List) {
	var diags diag.List
	for _, name := range files {
		text, err := bounds.ReadFile(path(name), bounds.Text)
		if err != nil {
			diags = diags.Append(diag.New(diag.Error, err.Error(), "The file must have one address per line.", nil))
			continue
		}
		for _, l := range strings.Split(string(text), "\n") {
			if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
				addresses = append(addresses, l)
			}
		}
	}
	return addresses, diags
}
