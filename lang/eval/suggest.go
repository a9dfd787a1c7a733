package eval

import (
	"fmt"
	"slices"

	"github.com/agext/levenshtein"
)

// didYouMean returns the sentence that offers a declared name like the given one, with a space in front, or nothing.
func didYouMean(given string, declared []string) string {
	declared = slices.Clone(declared)
	slices.Sort(declared)
	for _, name := range declared {
		// Two typing mistakes apart is where OpenTofu draws the line.
		if levenshtein.Distance(given, name, nil) < 3 {
			return fmt.Sprintf(" Did you mean %q?", name)
		}
	}
	return ""
}
