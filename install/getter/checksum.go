package getter

import (
	"crypto/md5"  //nolint:gosec // users have such checksums in their sources
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// sums are the supported hashes.
var sums = map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// checkSum checks the checksum of a file: TYPE:HEX, or HEX alone, whose length determines the type. An empty one
// matches.
func checkSum(name, want string) error {
	if want == "" {
		return nil
	}
	kind, text, typed := strings.Cut(want, ":")
	if !typed {
		text = want
		kind = map[int]string{32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}[len(text)]
	}
	if kind == "file" {
		return errors.New("invalid checksum: a file of checksums is not supported; write the checksum itself, such " +
			"as sha256:HEX")
	}
	newHash := sums[strings.ToLower(kind)]
	if newHash == nil {
		return fmt.Errorf("invalid checksum: unsupported checksum type: %q", kind)
	}
	value, err := hex.DecodeString(text)
	if err != nil {
		return fmt.Errorf("invalid checksum: %w", err)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	h := newHash()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := h.Sum(nil); string(got) != string(value) {
		return fmt.Errorf("checksums did not match: expected %s:%x, got %x", kind, value, got)
	}
	return nil
}
