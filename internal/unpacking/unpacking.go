// Package unpacking bounds what an archive may become, so that one that somebody else has made cannot fill the disk. It
// reads no archive and knows no format.
package unpacking

import (
	"fmt"
	"io"
)

// The bounds of the archives that there are: packages of providers hold a plugin of up to hundreds of megabytes; those
// of modules hold text, and at times a binary.
var (
	Provider = Bounds{Bytes: 4 << 30, Entries: 100_000}
	Module   = Bounds{Bytes: 1 << 30, Entries: 100_000}
)

// Bounds are how many bytes all files of an archive may have together, and how many entries it may have.
type Bounds struct {
	Bytes   int64
	Entries int
}

// Budget is the rest of the bounds while one archive is unpacked.
type Budget struct {
	of      Bounds
	bytes   int64
	entries int
}

// Budget begins an archive.
func (b Bounds) Budget() *Budget { return &Budget{of: b, bytes: b.Bytes, entries: b.Entries} }

// Entry counts an entry: a file, a directory or a link.
func (b *Budget) Entry() error {
	if b.entries == 0 {
		return fmt.Errorf("the archive has more than %d entries", b.of.Entries)
	}
	b.entries--
	return nil
}

// Copy writes a file's content. It reads at most one byte more than the rest of the budget.
func (b *Budget) Copy(to io.Writer, from io.Reader) error {
	n, err := io.Copy(to, io.LimitReader(from, b.bytes+1))
	if err == nil && n > b.bytes {
		err = fmt.Errorf("the archive unpacks to more than %d bytes", b.of.Bytes)
	}
	b.bytes -= min(n, b.bytes)
	return err
}
