package eval

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

// didYouMean returns the sentence that offers the declared name that is most like the given one, with a space in front,
// or nothing.
func didYouMean(given string, declared []string) string {
	best, distance := "", 3 // two typing mistakes apart is where OpenTofu draws the line
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

// shellWord quotes an address for a POSIX shell, when it needs that.
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
