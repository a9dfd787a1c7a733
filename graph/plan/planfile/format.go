package planfile

import (
	"archive/zip"
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// Formats are the formats whose plans this program applies.
func Formats() []int { return []int{wholeVersion, reducedVersion, keptVersion, formatVersion} }

// Applies reports whether this program applies plans of a format.
func Applies(format int) bool { return slices.Contains(Formats(), format) }

// Format returns the format of a plan file, and the version of Millipede that saved it (empty in format 1), without
// decoding the plan. The format may be one that this program does not know. It returns ErrNoPlan for another file.
func Format(data []byte) (format int, engine string, err error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return 0, "", ErrNoPlan
	}
	for _, f := range z.File {
		if f.Name != versionEntry && f.Name != engineEntry {
			continue
		}
		content, err := readEntry(f)
		if err != nil {
			return 0, "", fmt.Errorf("the plan file is damaged: %w", err)
		}
		if f.Name == engineEntry {
			engine = string(content)
		} else if format, err = strconv.Atoi(string(content)); err != nil {
			return 0, "", fmt.Errorf("the plan file is damaged: it has the format %q", content)
		}
	}
	if format == 0 {
		return 0, "", ErrNoPlan
	}
	return format, engine, nil
}
