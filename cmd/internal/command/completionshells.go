package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/internal/wholefile"
)

// shellFile is a configuration file of a shell for completion.
type shellFile struct {
	path  string
	lines []string // the lines to add
	// whole says that the file has no other purpose.
	whole bool
}

// shellFiles returns the files of the user's shells: for bash and zsh if they have a start-up file, for fish if
// it has a configuration directory.
func (a *App) shellFiles(name, binary string) []shellFile {
	home := a.Getenv("HOME")
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	var out []shellFile
	candidates := []string{".bashrc", ".bash_profile", ".bash_login", ".profile"}
	if runtime.GOOS == "darwin" {
		candidates = []string{".bash_profile"}
	}
	for _, c := range candidates {
		if path := filepath.Join(home, c); there(path) {
			out = append(out, shellFile{path: path, lines: []string{fmt.Sprintf("complete -C %s %s", binary, name)}})
			break
		}
	}
	if path := filepath.Join(home, ".zshrc"); there(path) {
		out = append(out, shellFile{path: path, lines: []string{
			"autoload -U +X bashcompinit && bashcompinit", fmt.Sprintf("complete -o nospace -C %s %s", binary, name),
		}})
	}
	config := a.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	if dir := filepath.Join(config, "fish"); there(dir) {
		out = append(out, shellFile{path: filepath.Join(dir, "completions", name+".fish"), whole: true, lines: []string{
			"function __complete_" + name,
			"    set -lx COMP_LINE (commandline -cp)",
			"    test -z (commandline -ct); and set COMP_LINE \"$COMP_LINE \"",
			"    " + binary,
			"end",
			fmt.Sprintf("complete -f -c %s -a \"(__complete_%s)\"", name, name),
		}})
	}
	return out
}

// installCompletion configures the user's shells to complete command lines with this program, or removes that
// configuration.
func (a *App) installCompletion(install bool) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(binary), ".exe")
	all := a.shellFiles(name, binary)
	if len(all) == 0 {
		return errors.New("no start-up file of bash, zsh or fish was found in the home directory")
	}
	var failed []error
	for _, f := range all {
		text, err := os.ReadFile(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
			continue
		}
		switch has := slices.Contains(strings.Split(string(text), "\n"), f.lines[len(f.lines)-1]); {
		case install && has:
			failed = append(failed, fmt.Errorf("already installed in %s", f.path))
		case install:
			failed = append(failed, f.add(string(text)))
		case !has:
			failed = append(failed, fmt.Errorf("not installed in %s", f.path))
		default:
			failed = append(failed, f.remove(string(text)))
		}
	}
	return errors.Join(failed...)
}

// add appends the lines to the file, except those that it already has.
func (f shellFile) add(text string) error {
	if f.whole {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(f.path, []byte(strings.Join(f.lines, "\n")+"\n"), 0o644)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	present := strings.Split(text, "\n")
	for _, line := range f.lines {
		if !slices.Contains(present, line) {
			text += line + "\n"
		}
	}
	return f.replace(text)
}

// remove removes the last line: the lines before it may be needed by other programs.
func (f shellFile) remove(text string) error {
	if f.whole {
		return os.Remove(f.path)
	}
	own := f.lines[len(f.lines)-1]
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == own })
	return f.replace(strings.Join(lines, "\n"))
}

// replace writes the file. A symbolic link is kept, because start-up files are often stored elsewhere.
func (f shellFile) replace(text string) error {
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return wholefile.Write(path, info.Mode().Perm(), wholefile.Bytes([]byte(text)))
}
