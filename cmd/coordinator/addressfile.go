package main

import (
	"strings"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/lang/diag"
)

// readAddressFiles adds the addresses in files, one a line, to those on the command line. Empty lines and comments
// (#) are passed over. path says where the files are.
func readAddressFiles(addresses, files []string, path func(name string) string) ([]string, diag.List) {
	var diags diag.List
	for _, name := range files {
		text, err := bounds.ReadFile(path(name), bounds.Text)
		if err != nil {
			diags = diags.Append(diag.New(diag.Error, err.Error(), "The file was to have addresses, one a line.", nil))
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
