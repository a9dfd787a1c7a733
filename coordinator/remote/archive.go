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

// Pack writes the archive of a configuration: the tree below a directory, without what .terraformignore in it and the
// rules that always hold leave out. Links that stay inside are kept, those that lead out are replaced by what they lead
// to.
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

// maxLinks is how often a link may lead to a directory that has a link in it, and so on.
const maxLinks = 20

// directory packs what is in a directory, under a name in the archive. links counts the links that led there.
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
		// A directory that is left out may hold what a later rule takes back.
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
		return nil // a socket or a device is no part of a configuration
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
		return fmt.Errorf("the link %s leads nowhere: %w", name, err)
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
		return fmt.Errorf("the link %s leads to a directory that it is in itself", name)
	}
	return p.packDirectory(target, name, info, links+1)
}

func (p *packer) file(file, name string, info fs.FileInfo) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
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

// ignoreName is the file with rules about what is not uploaded.
const ignoreName = ".terraformignore"

// A rule leaves out, or takes back, what its pattern matches: the last one that matches counts. The patterns are those
// of .gitignore files: one with a slash at its beginning is about the root of the configuration alone, one with a slash
// at its end about directories, and ** stands for any number of directories.
type rule struct {
	back bool
	// parts of the pattern, and whether only directories match it.
	parts     []string
	directory bool
}

type rules []rule

// always are the rules that hold before those of the file. The stores of Millipede hold states and keys.
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
			return nil, fmt.Errorf("%s: the pattern %q cannot be understood", ignoreName, line)
		}
		out = append(out, r)
	}
	return out, nil
}

func cutPrefix(s, prefix string) (string, bool) {
	rest, is := strings.CutPrefix(s, prefix)
	return strings.TrimSpace(rest), is
}

// leavesOut tells whether a file or a directory is not packed.
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

// covers tells whether a rule matches what has this name, or a directory that it is in.
func (r rule) covers(parts []string, dir bool) bool {
	for n := 1; n <= len(parts); n++ {
		if (n < len(parts) || dir || !r.directory) && matches(r.parts, parts[:n]) {
			return true
		}
	}
	return false
}

// mayTakeBack tells whether a rule could take back something in a directory.
func (rs rules) mayTakeBack(name string) bool {
	parts := strings.Split(name, "/")
	for _, r := range rs {
		if r.back && begins(r.parts, parts) {
			return true
		}
	}
	return false
}

// begins tells whether a pattern could match something below a directory.
func begins(pattern, dir []string) bool {
	for i, part := range dir {
		if i >= len(pattern) {
			return false
		}
		if pattern[i] == "**" {
			if i+1 < len(pattern) && pattern[i+1] != "**" && i == 0 {
				// A pattern that holds anywhere is looked for where its first part is: not below what is left out as a whole.
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

// matches tells whether a pattern matches a name as a whole.
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
