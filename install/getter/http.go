package getter

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/bgentry/go-netrc/netrc"

	"github.com/millipede-iac/millipede/install/services"
	"github.com/millipede-iac/millipede/internal/environ"
)

// http gets an archive from a web server, or the source to which the server refers.
func (g *Getter) http(ctx context.Context, u *url.URL, into string, hops int) error {
	q, kind := archiveKind(u)
	header, err := netrcHeader(u, g.env)
	if err != nil {
		return err
	}
	if kind == "" {
		return g.named(ctx, u, header, into, hops)
	}
	sum := q.Get("checksum")
	q.Del("checksum")
	at := *u
	at.RawQuery = q.Encode()
	return g.Archive(ctx, services.Download{URL: at.String(), Header: header, Retries: archiveRetries},
		func(file string) error {
			if err := checkSum(file, sum); err != nil {
				return err
			}
			return unpack(file, kind, into)
		})
}

// archiveRetries is the number of retries of the download of an archive.
const archiveRetries = 2

// Archive downloads an archive, and calls fn with its file, which is removed afterwards.
func (g *Getter) Archive(ctx context.Context, d services.Download, fn func(file string) error) error {
	f, err := os.CreateTemp(g.env.TempDir(), "module-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = g.services.Download(ctx, d, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return fn(f.Name())
}

// named requests a URL and returns the source to which the web server refers, in a header or in a page.
func (g *Getter) named(ctx context.Context, u *url.URL, header http.Header, into string, hops int) error {
	if hops == 0 {
		return errors.New("too many servers name another source")
	}
	q := query(u)
	q.Set("terraform-get", "1")
	at := *u
	at.RawQuery = q.Encode()
	f, err := os.CreateTemp(g.env.TempDir(), "module-page-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close() //nolint:errcheck // what was written is read back
	answer, err := g.services.Download(ctx, services.Download{URL: at.String(), Header: header, Retries: archiveRetries,
		NoContent: true}, f)
	var status *services.StatusError
	if errors.As(err, &status) {
		return fmt.Errorf("bad response code: %d", status.Code)
	}
	if err != nil {
		return err
	}
	source := answer.Get("X-Terraform-Get")
	if source == "" {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		source = metaSource(io.LimitReader(f, maxPage))
	}
	if source == "" {
		return errors.New("no source URL was returned")
	}
	if strings.HasPrefix(source, "/") || strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../") {
		absolute, err := u.Parse(source)
		if err != nil {
			return err
		}
		source = absolute.String()
	}
	return g.getSource(ctx, source, into, hops-1)
}

// maxPage bounds how much of a page is read, in bytes.
const maxPage = 1 << 20

// metaSource returns the content of the meta element terraform-get in the head of a page; empty if there is none.
func metaSource(page io.Reader) string {
	d := xml.NewDecoder(page)
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if err != nil {
			return "" // an unreadable page has none
		}
		switch t := token.(type) {
		case xml.StartElement:
			if strings.EqualFold(t.Name.Local, "body") {
				return ""
			}
			if strings.EqualFold(t.Name.Local, "meta") && attribute(t, "name") == "terraform-get" {
				return attribute(t, "content")
			}
		case xml.EndElement:
			if strings.EqualFold(t.Name.Local, "head") {
				return ""
			}
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if strings.EqualFold(a.Name.Local, name) {
			return a.Value
		}
	}
	return ""
}

// netrcHeader returns the header with the credentials of a server in the user's .netrc file. The header is nil if the
// file has no entry for the server, or if the URL itself contains a user. As with OpenTofu, a URL with a port needs an
// entry for MACHINE:PORT: the server at another port may belong to someone else, who must not receive the password.
func netrcHeader(u *url.URL, env environ.Variables) (http.Header, error) {
	name := env.Get("NETRC")
	if name == "" {
		home, err := env.Home()
		if err != nil {
			return nil, nil //nolint:nilerr // a home directory is not required
		}
		name = filepath.Join(home, ".netrc")
		if runtime.GOOS == "windows" {
			name = filepath.Join(home, "_netrc")
		}
	}
	info, err := os.Stat(name)
	if u.User != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && info.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the file of passwords cannot be read: %w", err)
	}
	file, err := netrc.ParseFile(name)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", name, err)
	}
	machine := file.FindMachine(u.Host)
	if machine == nil {
		return nil, nil
	}
	credentials := base64.StdEncoding.EncodeToString([]byte(machine.Login + ":" + machine.Password))
	return http.Header{"Authorization": {"Basic " + credentials}}, nil
}
