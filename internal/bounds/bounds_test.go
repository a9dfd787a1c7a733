package bounds_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/bounds"
)

// endless is like the content of the device /dev/zero.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	e.read += int64(len(b))
	return len(b), nil
}

// Files were read with os.ReadFile, so a variable file /dev/zero took all memory of the machine.
func TestWhatHasNoEndIsReadUpToTheLimit(t *testing.T) {
	r := &endless{}
	_, err := bounds.ReadAll(r, "zero", 1<<20)
	var large *bounds.TooLargeError
	if !errors.As(err, &large) || large.Limit != 1<<20 || !strings.Contains(err.Error(), "zero is larger than 1 MiB") {
		t.Errorf("the error is %v", err)
	}
	if r.read > 1<<20+1 {
		t.Errorf("%d bytes were read", r.read)
	}
}

func TestADeviceIsReadUpToTheLimitOfStreams(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the device is Linux's")
	}
	_, err := bounds.ReadFile("/dev/zero", bounds.State)
	var large *bounds.TooLargeError
	if !errors.As(err, &large) || large.Limit != bounds.Stream {
		t.Errorf("the error is %v", err)
	}
}

func TestAFileIsReadWhole(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 4096, 100_000} {
		name := filepath.Join(t.TempDir(), "file")
		text := strings.Repeat("x", size)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := bounds.ReadFile(name, 100_000); err != nil || string(got) != text {
			t.Errorf("of %d bytes %d were read: %v", size, len(got), err)
		}
		if got, err := bounds.ReadAll(io.MultiReader(strings.NewReader(text), strings.NewReader("y")), "a reader",
			200_000); err != nil || string(got) != text+"y" {
			t.Errorf("of a reader with %d bytes %d were read: %v", size+1, len(got), err)
		}
	}
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, make([]byte, 11), 0o600); err != nil {
		t.Fatal(err)
	}
	var large *bounds.TooLargeError
	if _, err := bounds.ReadFile(name, 10); !errors.As(err, &large) || large.Name != name {
		t.Errorf("the error is %v", err)
	}
}

func TestAFileThatIsNotThereOrADirectoryIsAnErrorOfTheFileSystem(t *testing.T) {
	if _, err := bounds.ReadFile(filepath.Join(t.TempDir(), "none"), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	var path *fs.PathError
	if _, err := bounds.ReadFile(t.TempDir(), 10); !errors.As(err, &path) {
		t.Errorf("the error of a directory is %v", err)
	}
}
