package planfile

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// A later version may add entries to the archive, and keys to what is in them, without a new format.
func TestWhatALaterVersionAddsToAPlanIsSkipped(t *testing.T) {
	data, err := os.ReadFile("testdata/format2.plan")
	if err != nil {
		t.Fatal(err)
	}
	want, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	to := zip.NewWriter(&out)
	write := func(name string, content []byte) {
		w, err := to.Create(name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range z.File {
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name == planEntry || f.Name == configEntry {
			var fields map[string]msgpack.RawMessage
			if err := msgpack.Unmarshal(content, &fields); err != nil {
				t.Fatal(err)
			}
			fields["of the next version"], _ = msgpack.Marshal([]any{"x", map[string]any{"y": 1}})
			if content, err = msgpack.Marshal(fields); err != nil {
				t.Fatal(err)
			}
		}
		write(f.Name, content)
	}
	write("of the next version", []byte("more"))
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Decode(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Encode(got)
	wanted, _ := Encode(want)
	if len(again) == 0 || !reflect.DeepEqual(got.Config, want.Config) || !bytes.Equal(again, wanted) {
		t.Error("the plan is read differently")
	}
}
