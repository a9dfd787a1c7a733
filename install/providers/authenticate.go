package providers

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/lang/addr"
)

// Authentication says how the origin of a package was verified.
type Authentication struct {
	// KeyID is the ID of the key that signed the checksums of the package; empty if they are not signed.
	KeyID string
	// SigningSkipped is set if the registry provides the package without a signature.
	SigningSkipped bool
	// KeyExpired is set if the key has expired, which is not an error yet.
	KeyExpired bool

	// verified are the hashes that were computed from the package; vouched are those that its registry or mirror
	// reports for it, on all platforms.
	verified, vouched []string
}

// String returns OpenTofu's description of it.
func (a *Authentication) String() string {
	switch {
	case a == nil:
		return "unauthenticated"
	case a.KeyID != "":
		return "signed"
	case a.SigningSkipped:
		return "signing skipped"
	case len(a.verified) > 0:
		return "verified checksum"
	default:
		return "unauthenticated"
	}
}

// checks are the data for verifying a downloaded package: the hashes of a mirror, or the checksums of a registry
// with their signature.
type checks struct {
	provider addr.Provider
	platform string

	// accepted are the hashes of a mirror; empty if it provides none. trusted are more of its hashes, which are
	// used without verification.
	accepted, trusted []string

	// sum is the SHA-256 hash that a registry reports, and file the name of the package in sums. packages has the
	// registry's hashes of the packages of all platforms; it is empty if the registry does not report them.
	sum, file         string
	packages          map[string]reported
	sums, signature   []byte
	keys              []string
	enforce           bool
	enforceExpiration bool
}

// reported is a registry's information about the package of a platform.
type reported struct {
	hashes []string
	size   int64
}

// verify authenticates a package.
func (c checks) verify(archive string) (*Authentication, error) {
	if c.sum == "" {
		return c.mirrored(archive)
	}
	out := &Authentication{}
	if err := c.reported(archive, out); err != nil {
		return nil, err
	}
	if err := c.listed(); err != nil {
		return nil, err
	}
	zh, err := hashFile(archive)
	if err != nil {
		return nil, err
	}
	if zh != "zh:"+c.sum {
		return nil, fmt.Errorf("archive has incorrect checksum %s (expected %s)", zh, "zh:"+c.sum)
	}
	out.verified = append(out.verified, zh)
	return out, c.signed(out)
}

// mirrored checks the hashes of a mirror: the package must have one of those that can be computed here.
func (c checks) mirrored(archive string) (*Authentication, error) {
	if len(c.accepted) == 0 && len(c.trusted) == 0 {
		return nil, nil
	}
	h1, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		return nil, fmt.Errorf("failed to verify provider package checksums: %w", err)
	}
	zh, err := hashFile(archive)
	if err != nil {
		return nil, err
	}
	out := &Authentication{}
	all := append(c.accepted[:len(c.accepted):len(c.accepted)], c.trusted...)
	for _, h := range []string{h1, zh} {
		if slices.Contains(all, h) {
			out.verified = append(out.verified, h)
		}
	}
	if len(out.verified) == 0 {
		return nil, fmt.Errorf("provider package doesn't match the expected checksum %s",
			strings.Join(c.accepted, " or "))
	}
	out.vouched = c.trusted
	return out, nil
}

// reported compares a package with the data of the registry.
func (c checks) reported(archive string, out *Authentication) error {
	if len(c.packages) == 0 {
		return nil
	}
	pkg, ok := c.packages[c.platform]
	if !ok {
		return fmt.Errorf("registry response missing package with platform %q", c.platform)
	}
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	if info.Size() != pkg.size {
		return fmt.Errorf("registry response indicates a package of size %d, but received a package of size %d",
			pkg.size, info.Size())
	}
	if !slices.Contains(pkg.hashes, "zh:"+c.sum) {
		return fmt.Errorf("registry response expected sha256sum is %q, which is not among the hashes that it gives "+
			"for the platform", c.sum)
	}
	if !c.enforce { // with signatures, only signed hashes are used
		for _, other := range c.packages {
			out.vouched = append(out.vouched, other.hashes...)
		}
	}
	return nil
}

// listed checks that the list of checksums contains that of the package.
func (c checks) listed() error {
	for line := range strings.Lines(string(c.sums)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != c.file {
			continue
		}
		if !strings.EqualFold(fields[0], c.sum) {
			return fmt.Errorf("checksum list has unexpected SHA-256 hash %s (expected %s)", fields[0], c.sum)
		}
		return nil
	}
	return fmt.Errorf("checksum list has no SHA-256 hash for %q", c.file)
}

// signed checks the signature of the list if there are keys or it is required, and uses the hashes in the list.
func (c checks) signed(out *Authentication) error {
	if len(c.keys) > 0 || c.enforce {
		id, expired, err := c.signer()
		if err != nil {
			return fmt.Errorf("the provider is not signed with a valid signing key; please contact the provider "+
				"author (%w)", err)
		}
		out.KeyID, out.KeyExpired = id, expired
	} else {
		out.SigningSkipped = true
	}
	var hashes []string
	for line := range strings.Lines(string(c.sums)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !validHash("zh:"+fields[0]) {
			return nil // this is not a list of checksums
		}
		hashes = append(hashes, "zh:"+strings.ToLower(fields[0]))
	}
	out.vouched = append(out.vouched, hashes...)
	return nil
}

// signer returns the key that signed the list.
func (c checks) signer() (id string, expired bool, err error) {
	for _, armor := range c.keys {
		ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(armor))
		if err != nil {
			return "", false, fmt.Errorf("error decoding signing key: %w", err)
		}
		entity, err := openpgp.CheckDetachedSignature(ring, bytes.NewReader(c.sums), bytes.NewReader(c.signature), nil)
		switch {
		case err == nil:
			return entity.PrimaryKey.KeyIdString(), false, nil
		case errors.Is(err, pgperrors.ErrUnknownIssuer):
		case errors.Is(err, pgperrors.ErrKeyExpired) || errors.Is(err, pgperrors.ErrSignatureExpired):
			if !expired && len(ring) > 0 {
				id, expired = ring[0].PrimaryKey.KeyIdString(), true
			}
		default:
			return "", false, fmt.Errorf("error checking signature: %w", err)
		}
	}
	if expired && !c.enforceExpiration {
		return id, true, nil
	}
	return "", false, errors.New("authentication signature from unknown issuer")
}

// mustBeSigned reports whether a provider must have a signature. The default registry has providers whose authors
// have not provided a key; OPENTOFU_ENFORCE_GPG_VALIDATION=true rejects those.
func mustBeSigned(p addr.Provider, env environ.Variables) bool {
	return p.Host != addr.DefaultHost || env.Get("OPENTOFU_ENFORCE_GPG_VALIDATION") == "true"
}

// validHash reports whether a hash has a scheme, and the right form if the scheme is known.
func validHash(h string) bool {
	scheme, value, ok := strings.Cut(h, ":")
	if scheme == "zh" {
		_, err := hex.DecodeString(value)
		return err == nil && len(value) == 64
	}
	return ok && scheme != "" && value != ""
}
