package remote

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Pack writes the archive of a configuration: all files below a directory, except those that the built-in rules
// or its .terraformignore exclude. Links to files within the directory are kept; other links are replaced by
// their targets.
func Pack(ctx context.Context, dir string, w io.Writer) error {
	rules, err := readRules(filepath.Join(dir, ignoreName))
	if err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(w)
	p := &packer{ctx: ctx, rules: rules, root: root, tar: tar.NewWriter(z)}
	if err := p.directory(root, "", 0); err != nil {
		return err
	}
	return errors.Join(p.tar.Close(), z.Close())
}

type packer struct {
	ctx   context.Context //nolint:containedctx // a packer lives as long as the call of Pack
	rules rules
	root  string
	tar   *tar.Writer
}

// maxLinks bounds how many links to directories a path may contain.
const maxLinks = 20

// directory packs the content of a directory, under a name in the archive. links counts the links on the path
// to it.
func (p *packer) directory(dir, name string, links int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		if err := p.entry(filepath.Join(dir, e.Name()), path.Join(name, e.Name()), links); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(file, name string, links int) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if info.IsDir() {
		// An excluded directory may contain files that a later rule includes again.
		if p.rules.leavesOut(name, true) && !p.rules.mayTakeBack(name) {
			return nil
		}
		return p.packDirectory(file, name, info, links)
	}
	if p.rules.leavesOut(name, false) {
		return nil
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return p.link(file, name, links)
	}
	if !info.Mode().IsRegular() {
		return nil // sockets and devices are not part of a configuration
	}
	return p.file(file, name, info)
}

func (p *packer) packDirectory(dir, name string, info fs.FileInfo, links int) error {
	h := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	return p.directory(dir, name, links)
}

func (p *packer) link(file, name string, links int) error {
	to, err := os.Readlink(file)
	if err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("the link %s has no target: %w", name, err)
	}
	inside, err := filepath.Rel(p.root, target)
	if err == nil && filepath.IsLocal(inside) && !filepath.IsAbs(to) && links == 0 {
		return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: filepath.ToSlash(to),
			Mode: 0o777})
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return p.file(target, name, info)
	case links >= maxLinks:
		return fmt.Errorf("the link %s points to a directory that contains it", name)
	}
	return p.packDirectory(target, name, info, links+1)
}

func (p *packer) file(file, name string, info fs.FileInfo) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(),
		Size: info.Size()}
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(in, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("the file %s became shorter while it was read", name)
	}
	return err
}

// ignoreName is the file with rules about files that are not uploaded.
const ignoreName = ".terraformignore"

// rule excludes, or includes again, the files that its pattern matches; the last matching rule counts. Patterns
// are those of .gitignore files: a leading slash anchors a pattern at the root of the configuration, a trailing
// slash restricts it to directories, and ** matches any number of directories.
type rule struct {
	back bool
	// parts are the elements of the pattern; directory says that only directories match it.
	parts     []string
	directory bool
}

type rules []rule

// always are the built-in rules, which precede those of the file. Millipede's stores contain states and keys.
var always = []string{".git/", ".terraform/", "!.terraform/modules/", ".millipede/"}

func readRules(file string) (rules, error) {
	lines := always
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		for line := range bytes.Lines(text) {
			lines = append(lines[:len(lines):len(lines)], string(line))
		}
	}
	var out rules
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var r rule
		line, r.back = cutPrefix(line, "!")
		rest, anchored := cutPrefix(line, "/")
		rest = strings.TrimSuffix(rest, "**")
		trimmed := strings.TrimRight(rest, "/")
		r.directory = trimmed != rest
		if trimmed == "" {
			continue
		}
		r.parts = strings.Split(trimmed, "/")
		if !anchored && r.parts[0] != "**" {
			r.parts = append([]string{"**"}, r.parts...)
		}
		if _, err := path.Match(strings.Join(r.parts, "/"), ""); err != nil {
			return nil, fmt.Errorf("%s: invalid pattern %q", ignoreName, line)
		}
		out = append(out, r)
	}
	return out, nil
}

func cutPrefix(s, prefix string) (string, bool) {
	rest, is := strings.CutPrefix(s, prefix)
	return strings.TrimSpace(rest), is
}

// leavesOut reports whether a file or a directory is excluded.
func (rs rules) leavesOut(name string, dir bool) bool {
	parts := strings.Split(name, "/")
	out := false
	for _, r := range rs {
		if out == r.back && r.covers(parts, dir) {
			out = !r.back
		}
	}
	return out
}

// covers reports whether a rule matches a name, or a directory above it.
func (r rule) covers(parts []string, dir bool) bool {
	for n := 1; n <= len(parts); n++ {
		if (n < len(parts) || dir || !r.directory) && matches(r.parts, parts[:n]) {
			return true
		}
	}
	return false
}

// mayTakeBack reports whether a rule could include something in a directory again.
func (rs rules) mayTakeBack(name string) bool {
	parts := strings.Split(name, "/")
	for _, r := range rs {
		if r.back && begins(r.parts, parts) {
			return true
		}
	}
	return false
}

// begins reports whether a pattern could match something below a directory.
func begins(pattern, dir []string) bool {
	for i, part := range dir {
		if i >= len(pattern) {
			return false
		}
		if pattern[i] == "**" {
			if i+1 < len(pattern) && pattern[i+1] != "**" && i == 0 {
				// An unanchored pattern is searched for where its first element is: not below a directory that
				// is excluded as a whole.
				return begins(pattern[1:], dir)
			}
			return true
		}
		if is, _ := path.Match(pattern[i], part); !is {
			return false
		}
	}
	return len(pattern) > len(dir)
}

// matches reports whether a pattern matches a whole name.
func matches(pattern, parts []string) bool {
	if len(pattern) == 0 {
		return len(parts) == 0
	}
	if pattern[0] == "**" {
		for n := 0; n <= len(parts); n++ {
			if matches(pattern[1:], parts[n:]) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 {
		return false
	}
	is, _ := path.Match(pattern[0], parts[0])
	return is && matches(pattern[1:], parts[1:])
}
