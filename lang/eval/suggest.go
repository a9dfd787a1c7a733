package eval

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

// didYouMean returns a sentence that suggests the most similar declared name, with a leading space, or the empty
// string.
func didYouMean(given string, declared []string) string {
	best, distance := "", 3 // OpenTofu suggests names with an edit distance of at most 2
	for _, name := range declared {
		if d := levenshtein.Distance(given, name, nil); d < distance || (d == distance && best != "" && name < best) {
			best, distance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

// shellWord quotes an address for a POSIX shell, if necessary.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func withArticle(noun string) string {
	if strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}
