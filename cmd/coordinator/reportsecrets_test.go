//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/internal/environ"
)

const secretive = `
variable "secret" {
  default   = "canary-4711"
  sensitive = true
}
resource "terraform_data" "held" {
  input = var.secret
}
resource "terraform_data" "bad" {
  input      = [var.secret]
  depends_on = [terraform_data.held]
  provisioner "local-exec" {
    command = "echo the key is ${var.secret} >&2; false"
  }
}
`

var packedData = regexp.MustCompile(`(?s)<script type="application/octet-stream" id="(\w+)">(.*?)</script>`)

// The data of a report are compressed, so that a search in the file itself finds no secret even if there is one.
func TestASecretIsInNoReportAndNoGraph(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "estate")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(secretive), 0o600); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	run := func(line string) int {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &out, environ.Variables{"HOME=" + home, "PATH=" + os.Getenv("PATH")})
		code := a.Run(t.Context(), append([]string{"-chdir=" + dir}, strings.Fields(line)...))
		texts[line] = out.String()
		return code
	}
	if run("init") != 0 || run("apply -auto-approve -no-color") == 0 ||
		!strings.Contains(texts["apply -auto-approve -no-color"], "terraform_data.bad") {
		t.Fatalf("%v", texts)
	}
	for _, line := range []string{"runs report -out=report.html", "graph -format=dot", "graph -format=mermaid",
		"graph -format=svg", "graph -format=json", "runs show"} {
		if code := run(line); code != 0 {
			t.Errorf("%s exits with %d: %s", line, code, texts[line])
		}
	}
	run("runs watch")
	report, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range packedData.FindAllSubmatch(report, -1) {
		z, err := gzip.NewReader(base64.NewDecoder(base64.RawURLEncoding, bytes.NewReader(m[2])))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		texts["the report's "+string(m[1])] = string(text)
	}
	for _, part := range []string{"shape", "story", "parts"} {
		if texts["the report's "+part] == "" {
			t.Errorf("the report has no %s", part)
		}
	}
	if !strings.Contains(texts["the report's shape"], "local-exec") {
		t.Errorf("the failure is not in the report: %s", texts["the report's shape"])
	}
	texts["the report"] = string(report)
	for where, text := range texts {
		if strings.Contains(text, "canary") {
			t.Errorf("%s tells a secret: %s", where, text)
		}
	}
}
