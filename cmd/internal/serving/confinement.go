package serving

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millipede-iac/millipede/cmd/internal/confined"
	"github.com/millipede-iac/millipede/cmd/internal/natsconn"
	"github.com/millipede-iac/millipede/install/cliconfig"
	"github.com/millipede-iac/millipede/internal/confine"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/launch"
)

// confineEngine takes from an engine, and from the programs that it starts, all files but those that phases of runs
// need: they read programs and libraries, certificates, and what the operator has allowed, and write the directories of
// workspaces, the scratch directories of phases, and the caches of packages. The files of the service itself are not
// among them: its key, its records, the certificate, the states, plans and logs, and the messages of the embedded NATS
// server. The programs that an engine starts, such as git, cannot reach the memory of the engine, nor signal it.
func confineEngine(told *setup, cli *cliconfig.Config) error {
	program, err := program()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	if err := os.Setenv("TMPDIR", told.Temp); err != nil {
		return err
	}
	r := confine.Rules{Read: readable(told.Environ, program), Write: writable(told.Environ), Alone: true}
	r.Read = append(append(r.Read, told.Readable...), mirrors(cli)...)
	for _, file := range natsFiles(told.NATS) {
		r.Read = append(r.Read, environ.Path(cli.Dir(), file))
	}
	r.Write = append(append(r.Write, told.Writable...), told.Temp, cli.CacheDir)
	r.Write = append(r.Write, phaseDirs(told.Data)...)
	if err := r.Apply(); err != nil {
		return err
	}
	inner := confine.Rules{Write: []string{"/"}, Alone: true} // files are restricted already
	launch.Through(program, confined.Arguments(inner, told.Programs)...)
	return nil
}

// apart reports whether engines, and the embedded worker, are processes of their own.
func (s *serving) apart() bool { return s.Engines > 0 && separate }

// confine prepares the confinement of these processes, and says what is missing. The caller calls end after all runs.
func (s *serving) confine() (end func() error, err error) {
	if fact := confinementOf(s.Options); confine.Level() == 0 || !s.apart() {
		s.Log.Warn(fact)
	}
	if !s.apart() {
		return func() error { return nil }, nil
	}
	temp, remove, err := s.temporary()
	s.temp = temp
	return remove, err
}

// confinementOf says what the system keeps configurations of runs from, for operators.
func confinementOf(o Options) string {
	switch {
	case o.Engines == 0 || !separate:
		return "Configurations are evaluated in the process of the service (-engines=0): what they end or read is the " +
			"service."
	case confine.Level() == 0:
		return "This system has no Landlock (Linux 5.13 or later): configurations are evaluated in processes of their own, " +
			"but programs that they start may read and change what the user of the service may. " + limitsOf(o)
	}
	return fmt.Sprintf("Configurations are evaluated in processes of their own, which Landlock (version %d) confines, "+
		"with all programs that they start. %s", confine.Level(), limitsOf(o))
}

// limitsOf says what limits the programs of runs.
func limitsOf(o Options) string {
	processes := fmt.Sprintf("These programs start no process when the user of the service has %d.", o.ProgramProcesses)
	switch {
	case o.ProgramProcesses == 0:
		processes = "The number of their processes has no limit (-program-processes=0)."
	case !confined.ProcessesHold():
		processes = "The number of their processes has no limit: the service runs as root, which has none; set one for its " +
			"cgroup (TasksMax of systemd, pids.max)."
	}
	if o.ProgramFileSize == 0 {
		return processes + " Nor has the size of their files (-program-file-size=0)."
	}
	return processes + fmt.Sprintf(" A file that they write has at most %d MiB; the number of files has no limit.",
		o.ProgramFileSize)
}

// temporary makes the directory for temporary files of runs. It has a short name, because plugins make sockets there. A
// directory that a killed process of the service has left is removed.
func (s *serving) temporary() (dir string, remove func() error, err error) {
	note := filepath.Join(s.Data, "temporary")
	if text, err := os.ReadFile(note); err == nil && strings.HasPrefix(filepath.Base(string(text)), temporaryPrefix) {
		if err := os.RemoveAll(string(text)); err != nil {
			return "", nil, err
		}
	}
	if dir, err = os.MkdirTemp(s.Environ.TempDir(), temporaryPrefix); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(note, []byte(dir), 0o600); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), os.Remove(note)) }, nil
}

const temporaryPrefix = "millipede-runs-"

// phaseDirs are the directories of the service in which phases of runs work.
func phaseDirs(data string) (dirs []string) {
	for _, name := range []string{"workspaces", "scratch", "packages"} {
		dirs = append(dirs, filepath.Join(data, name))
	}
	return dirs
}

// readable are the files that all confined processes may read: a program finds others by PATH, and certificates by
// these variables.
func readable(env environ.Variables, program string) []string {
	out := append([]string{program}, confine.System...)
	out = append(out, filepath.SplitList(env.Get("PATH"))...)
	return append(out, env.Get("SSL_CERT_FILE"), env.Get("SSL_CERT_DIR"))
}

// writable are those that all confined processes may write.
func writable(env environ.Variables) []string {
	return append([]string{env.Get("TMPDIR"), env.Get("GOCOVERDIR")}, confine.Devices...)
}

// mirrors returns the directories from which the CLI configuration installs providers.
func mirrors(cli *cliconfig.Config) (dirs []string) {
	for _, m := range cli.Methods {
		if m.Kind == cliconfig.FilesystemMirror {
			dirs = append(dirs, environ.Path(cli.Dir(), m.Location))
		}
	}
	for _, dir := range cli.DevOverrides {
		dirs = append(dirs, environ.Path(cli.Dir(), dir))
	}
	if cli.Helper != nil {
		dirs = append(dirs, cli.Helper.Program)
	}
	return dirs
}

// natsFiles returns the files with which a connection to NATS is made, and made again.
func natsFiles(s natsconn.Settings) []string {
	return []string{s.Credentials, s.NKey, s.CA, s.Certificate, s.Key}
}
