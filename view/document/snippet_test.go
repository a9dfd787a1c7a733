package document

import (
	"bufio"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// For each snippet the whole file was scanned with its columns, grapheme by grapheme: a console on a file of 11,000
// lines with 800 problems spent two thirds of its 25 s of CPU on that.
func TestASnippetLooksAtItsOwnLinesAlone(t *testing.T) {
	src := []byte(strings.Repeat("locals {\n}\n", 50_000))
	at := len(src) - len("}\n")
	shown := hcl.Range{Start: hcl.Pos{Byte: at}, End: hcl.Pos{Byte: at + 1}}
	if n := len(slices.Collect(linesAround(src, shown))); n != 1 {
		t.Errorf("%d lines are looked at for one", n)
	}
}

func TestTheLinesOfASnippetAreThoseThatHCLFinds(t *testing.T) {
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 2))
		src := make([]byte, chance.IntN(40))
		for i := range src {
			src[i] = "ab\n\r\n"[chance.IntN(5)]
		}
		from := chance.IntN(len(src) + 1)
		shown := hcl.Range{Start: hcl.Pos{Byte: from}, End: hcl.Pos{Byte: from + chance.IntN(len(src)-from+1)}}
		type line struct{ from, to int }
		var want, got []line
		scanner := hcl.NewRangeScanner(src, "", bufio.ScanLines)
		for scanner.Scan() {
			if r := scanner.Range(); r.Overlaps(shown) {
				want = append(want, line{r.Start.Byte, r.End.Byte})
			}
		}
		for r := range linesAround(src, shown) {
			if r.Overlaps(shown) {
				got = append(got, line{r.Start.Byte, r.End.Byte})
			}
		}
		if !slices.Equal(want, got) {
			t.Fatalf("seed %d: %q from %d to %d: lines %v instead of %v", seed, src, from, shown.End.Byte, got, want)
		}
	}
}
