package funcs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
)

// filesystem contains the functions that read files, or whose result depends on the base directory.
func filesystem(dir directory) family {
	return family{
		"abspath":          {dir.absPath(), "Turns a path into an absolute one."},
		"file":             {dir.file(), "Reads a file, which must hold UTF-8 text."},
		"filebase64":       {dir.fileBase64(), "Reads a file and gives its bytes in base64."},
		"filebase64sha256": {dir.digestOf(base64SHA256), "Computes the SHA-256 digest of a file, in base64."},
		"filebase64sha512": {dir.digestOf(base64SHA512), "Computes the SHA-512 digest of a file, in base64."},
		"fileexists":       {dir.fileExists(), "Tells whether a regular file exists at a path."},
		"filemd5":          {dir.digestOf(hexMD5), "Computes the MD5 digest of a file, in hexadecimal digits."},
		"fileset":          {dir.fileSet(), "Lists the regular files below a directory whose paths match a pattern."},
		"filesha1":         {dir.digestOf(hexSHA1), "Computes the SHA-1 digest of a file, in hexadecimal digits."},
		"filesha256":       {dir.digestOf(hexSHA256), "Computes the SHA-256 digest of a file, in hexadecimal digits."},
		"filesha512":       {dir.digestOf(hexSHA512), "Computes the SHA-512 digest of a file, in hexadecimal digits."},
		"pathexpand": {onPath(dir.expandHome), "Replaces a ~ at the start of a path by the user's home " +
			"directory."},
	}
}

// paths contains the functions that only split a path.
func paths() family {
	return family{
		"basename": {onPath(func(p string) (string, error) { return filepath.Base(p), nil }),
			"Gives the last part of a path."},
		"dirname": {onPath(func(p string) (string, error) { return filepath.Dir(p), nil }),
			"Gives a path without its last part."},
	}
}

// onPath makes a function of a path from f.
func onPath(f func(string) (string, error)) function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		out, err := f(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		return cty.StringVal(out), nil
	}, plain("path", cty.String))
}

// directory is the base of relative paths, with the environment that determines the home directory.
type directory struct {
	base  string
	env   environ.Variables
	files *reach.Files // those that may be read
}

// resolve converts a path in the configuration to one that can be opened.
func (d directory) resolve(path string) (string, error) {
	path, err := d.expandHome(path)
	if err != nil {
		return "", err
	}
	return d.join(path), nil
}

func (d directory) join(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.base, path)
}

// read returns the content of a file; pathMarks decide whether an error may contain its name.
func (d directory) read(path string, pathMarks cty.ValueMarks) ([]byte, error) {
	full, err := d.resolve(path)
	if err != nil {
		return nil, err
	}
	src, err := d.files.ReadFile(full, bounds.Content)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s. The function reads files that are there before anything is "+
			"planned; "+
			"for a file that a resource writes, refer to an attribute of that resource instead", show(path, pathMarks))
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", show(path, pathMarks), reason(err))
	}
	return src, nil
}

// named returns an error of the file system with the path as it is written in the configuration.
func (d directory) named(err error) error {
	var at *fs.PathError
	if !errors.As(err, &at) {
		return err
	}
	short, relErr := filepath.Rel(d.base, at.Path)
	if relErr != nil || !filepath.IsLocal(short) {
		return err
	}
	return &fs.PathError{Op: at.Op, Path: short, Err: at.Err}
}

// reason returns an error of the file system without its path.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// text returns the content of a UTF-8 file.
func (d directory) text(path string, pathMarks cty.ValueMarks) (string, error) {
	src, err := d.read(path, pathMarks)
	if err != nil {
		return "", function.NewArgError(0, err)
	}
	if !utf8.Valid(src) {
		return "", fmt.Errorf("%s is not UTF-8 text; filebase64 reads any file, and filesha256 and the like give "+
			"its digest", show(path, pathMarks))
	}
	return string(src), nil
}

func (d directory) file() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		path, pathMarks := args[0].Unmark()
		src, err := d.text(path.AsString(), pathMarks)
		if err != nil {
			return cty.NilVal, err
		}
		return cty.StringVal(src).WithMarks(pathMarks), nil
	}, withMarks("path", cty.String))
}

func (d directory) fileBase64() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		path, pathMarks := args[0].Unmark()
		src, err := d.read(path.AsString(), pathMarks)
		if err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		return cty.StringVal(base64.StdEncoding.EncodeToString(src)).WithMarks(pathMarks), nil
	}, withMarks("path", cty.String))
}

func (d directory) digestOf(how digest) function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		path, err := d.resolve(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		f, err := d.files.Open(path)
		if err != nil {
			return cty.NilVal, d.named(err)
		}
		defer f.Close() //nolint:errcheck // it is only read
		h := how.hash()
		if err := copyAll(h, f, args[0].AsString()); err != nil {
			return cty.NilVal, d.named(err)
		}
		return cty.StringVal(how.write(h.Sum(nil))), nil
	}, plain("path", cty.String))
}

// copyAll writes the content of a file. A file of any size has an end, which a device or a pipe need not have.
func copyAll(to io.Writer, f fs.File, name string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		_, err = io.Copy(to, f)
		return err
	}
	n, err := io.Copy(to, io.LimitReader(f, bounds.Stream+1))
	if err == nil && n > bounds.Stream {
		err = &bounds.TooLargeError{Name: name, Limit: bounds.Stream}
	}
	return err
}

func (d directory) fileExists() function.Function {
	return returning(cty.Bool, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		arg, pathMarks := args[0].Unmark()
		path, err := d.resolve(arg.AsString())
		if err != nil {
			return cty.NilVal, err
		}
		info, err := d.files.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return cty.False.WithMarks(pathMarks), nil
		case err != nil:
			return cty.NilVal, fmt.Errorf("looking for %s: %w", show(path, pathMarks), reason(err))
		case !info.Mode().IsRegular():
			return cty.NilVal, fmt.Errorf("%s is %s, not a regular file", show(path, pathMarks), kind(info.Mode()))
		default:
			return cty.True.WithMarks(pathMarks), nil
		}
	}, withMarks("path", cty.String))
}

// kind returns the name of a type of file that is not regular.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "something special"
	}
}

func (d directory) fileSet() function.Function {
	return returning(cty.Set(cty.String), func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		path, pathMarks := args[0].Unmark()
		pattern, patternMarks := args[1].Unmark()
		root := d.join(path.AsString())
		written := filepath.Join(path.AsString(), pattern.AsString())
		full := written
		if !filepath.IsAbs(path.AsString()) {
			full = filepath.Join(literally(d.base), written)
		}
		err := searchable(pattern.AsString())
		var matches []string
		if err == nil {
			matches, err = d.glob(full)
		}
		if err != nil {
			return cty.NilVal, fmt.Errorf("matching %s: %w", show(written, pathMarks, patternMarks), reason(err))
		}
		var found []cty.Value
		for _, match := range matches {
			info, err := d.files.Stat(match)
			if err != nil {
				return cty.NilVal, fmt.Errorf("looking at %s: %w", show(match, pathMarks, patternMarks), reason(err))
			}
			if !info.Mode().IsRegular() {
				continue
			}
			relative, err := filepath.Rel(root, match)
			if err != nil {
				return cty.NilVal, fmt.Errorf("finding the way to %s: %w", show(match, pathMarks, patternMarks),
					reason(err))
			}
			found = append(found, cty.StringVal(filepath.ToSlash(relative)))
		}
		if len(found) == 0 {
			return cty.SetValEmpty(cty.String).WithMarks(pathMarks, patternMarks), nil
		}
		return cty.SetVal(found).WithMarks(pathMarks, patternMarks), nil
	}, withMarks("path", cty.String), withMarks("pattern", cty.String))
}

// Each further part ** of a pattern is searched below all directories that the part before it has found, and each
// combination of alternatives is a search of its own.
const (
	maxDoubleStars  = 4
	maxAlternatives = 1000
)

// searchable checks that a pattern can be searched for in a reasonable time.
func searchable(pattern string) error {
	if strings.Count(pattern, "**") > maxDoubleStars {
		return fmt.Errorf("the pattern has more than %d parts **", maxDoubleStars)
	}
	combinations, open := 1, []int{}
	for i := 0; i < len(pattern) && combinations <= maxAlternatives; i++ {
		switch last := len(open) - 1; pattern[i] {
		case '\\':
			i++
		case '{':
			open = append(open, 1)
		case ',':
			if last >= 0 {
				open[last]++
			}
		case '}':
			if last >= 0 {
				combinations *= open[last]
				open = open[:last]
			}
		}
	}
	if combinations > maxAlternatives {
		return fmt.Errorf("the alternatives of the pattern have more than %d combinations", maxAlternatives)
	}
	return nil
}

// glob returns the files that match an absolute pattern.
func (d directory) glob(pattern string) (matches []string, err error) {
	if d.files == nil {
		return doublestar.FilepathGlob(pattern)
	}
	for _, dir := range d.files.Dirs() {
		for _, start := range []string{literally(dir), dir} { // as it is in patterns, and as people write it
			inside, err := filepath.Rel(start, pattern)
			if err == nil && filepath.IsLocal(inside) {
				return globBelow(dir, inside)
			}
		}
	}
	return nil, reach.ErrOutside
}

// globBelow returns the files below a directory that match a pattern. Links that lead out of it match nothing.
func globBelow(dir, pattern string) (matches []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	names, err := doublestar.Glob(root.FS(), filepath.ToSlash(pattern))
	for _, name := range names {
		matches = append(matches, filepath.Join(dir, filepath.FromSlash(name)))
	}
	return matches, err
}

// literally returns a pattern that matches only the path itself.
func literally(path string) string {
	if filepath.Separator == '\\' {
		return path // patterns have no escapes on this system
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}",
		`\}`).Replace(path)
}

func (d directory) absPath() function.Function {
	return returning(cty.String, func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.StringVal(filepath.ToSlash(d.join(args[0].AsString()))), nil
	}, plain("path", cty.String))
}

// expandHome replaces a leading ~ by the home directory of the operation's user.
func (d directory) expandHome(path string) (string, error) {
	if !strings.HasPrefix(path, "~") {
		return path, nil
	}
	if len(path) > 1 && !os.IsPathSeparator(path[1]) {
		return "", errors.New("the home directory of another user cannot be found")
	}
	home, err := d.env.Home()
	if err != nil {
		return "", fmt.Errorf("finding the home directory: %w", err)
	}
	return filepath.Join(home, path[1:]), nil
}
