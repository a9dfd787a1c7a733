package getter

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/launch"
	"github.com/millipede-iac/millipede/internal/pattern"
)

// query parses the query of a git URL. A semicolon is part of a value or name, as for git's servers; net/url drops
// arguments that contain one.
func query(u *url.URL) url.Values {
	// invalid arguments are left out, as in url.URL.Query
	q, _ := url.ParseQuery(strings.ReplaceAll(u.RawQuery, ";", "%3B"))
	return q
}

// clone clones a git repository. In the query, ref is the revision to check out (default: the default branch), depth
// limits the history, sshkey is a private key in base64.
func (g *Getter) clone(ctx context.Context, u *url.URL, into string) error {
	git, err := g.env.Program("", "git")
	if err != nil {
		return errors.New("git must be available and on the PATH")
	}
	q := query(u)
	ref, depth := q.Get("ref"), 0
	if n, err := strconv.Atoi(q.Get("depth")); err == nil && n > 0 {
		depth = n
	}
	env, remove, err := g.sshEnviron(q.Get("sshkey"))
	if err != nil {
		return err
	}
	defer remove()
	from := without(u, "ref", "depth", "sshkey")
	args := []string{"clone"}
	if depth > 0 {
		args = append(args, "--depth", strconv.Itoa(depth))
		if ref != "" {
			args = append(args, "--branch", ref)
		}
	}
	if err := run(ctx, filepath.Dir(into), env, git, append(args, "--", from, into)...); err != nil {
		if depth > 0 && commitID().MatchString(ref) {
			return fmt.Errorf("%w (note that setting 'depth' requires 'ref' to be a branch or tag name)", err)
		}
		return err
	}
	if ref != "" && depth == 0 {
		if err := g.checkout(ctx, git, into, ref); err != nil {
			return err
		}
	}
	args = []string{"submodule", "update", "--init", "--recursive"}
	if depth > 0 {
		args = append(args, "--depth", strconv.Itoa(depth))
	}
	return run(ctx, into, env, git, args...)
}

// commitID matches what looks like the ID of a commit.
var commitID = pattern.Lazy("^[0-9a-fA-F]{7,40}$")

// checkout checks out a commit, a branch or a tag.
func (g *Getter) checkout(ctx context.Context, git, dir, ref string) error {
	for _, candidate := range []string{ref, "refs/remotes/origin/" + ref, "refs/tags/" + ref} {
		cmd := launch.Command(ctx, dir, g.env.List(), git, "rev-parse", "--verify", "--quiet", "--end-of-options",
			candidate+"^{commit}")
		if out, err := cmd.Output(); err == nil {
			return run(ctx, dir, g.env, git, "checkout", "--quiet", strings.TrimSpace(string(out)))
		}
	}
	return fmt.Errorf("invalid ref: %q", ref)
}

// sshEnviron returns an environment in which ssh uses a private key. remove removes the key's file.
func (g *Getter) sshEnviron(key string) (env environ.Variables, remove func(), err error) {
	if key == "" {
		return g.env, func() {}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return nil, nil, fmt.Errorf("the sshkey of the source has to be in base64: %w", err)
	}
	f, err := os.CreateTemp(g.env.TempDir(), "module-key-*") // readable only by the owner
	if err != nil {
		return nil, nil, err
	}
	remove = func() { os.Remove(f.Name()) } //nolint:errcheck // it is readable only by the owner in any case
	if _, err = f.Write(raw); err == nil {
		err = f.Close()
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	command := g.env.Get("GIT_SSH_COMMAND")
	if command == "" {
		command = "ssh"
	}
	return g.env.With("GIT_SSH_COMMAND=" + command + " -i " + f.Name()), remove, nil
}

// cloneMercurial clones a Mercurial repository. In the query, rev is the revision to check out.
func (g *Getter) cloneMercurial(ctx context.Context, u *url.URL, into string) error {
	hg, err := g.env.Program("", "hg")
	if err != nil {
		return errors.New("hg must be available and on the PATH")
	}
	if err := run(ctx, filepath.Dir(into), g.env, hg, "clone", "-U", "--", without(u, "rev"), into); err != nil {
		return err
	}
	args := []string{"update"}
	if rev := query(u).Get("rev"); rev != "" {
		args = append(args, "--rev="+rev)
	}
	return run(ctx, into, g.env, hg, args...)
}

// without returns a URL without some arguments of its query.
func without(u *url.URL, names ...string) string {
	q := query(u)
	for _, name := range names {
		q.Del(name)
	}
	rest := *u
	rest.RawQuery = q.Encode()
	return rest.String()
}

// run runs a program in a directory and an environment. Its output is part of the error.
func run(ctx context.Context, dir string, env environ.Variables, file string, args ...string) error {
	name := filepath.Base(file)
	cmd := launch.Command(ctx, dir, env.List(), file, args...)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
