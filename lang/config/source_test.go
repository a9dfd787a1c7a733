package config

import (
	"strings"
	"testing"
)

func TestNoSecretOfAnAddressIsShown(t *testing.T) {
	for address, want := range map[string]string{
		"git::https://me:s3cret@example.com/a.git?ref=v1":                            "git::https://me:redacted@example.com/a.git?ref=v1",
		"git::ssh://git@example.com/a.git?sshkey=s3cret&depth=1":                     "git::ssh://git@example.com/a.git?sshkey=redacted&depth=1",
		"s3::https://h/b/k?aws_access_key_id=s3cret&aws_access_key_secret=s3cr%2Bet": "s3::https://h/b/k?aws_access_key_id=redacted&aws_access_key_secret=redacted",
		"https://h/m.zip?X-Amz-Signature=s3cret&archive=zip":                         "https://h/m.zip?X-Amz-Signature=redacted&archive=zip",
		"https://me@h/m.zip": "https://me@h/m.zip",
		"./a/b":              "./a/b",
	} {
		if got := Shown(address); got != want {
			t.Errorf("%s is shown as %s", address, got)
		}
		if got := Shown(want); got != want {
			t.Errorf("what was shown once is shown as %s", got)
		}
		told := Conceal("Get \""+address+"\": refused to me:s3cr+et", address)
		if strings.Contains(want, "redacted") && strings.Contains(told, "s3cret") || strings.Contains(address, "%2B") &&
			strings.Contains(told, "s3cr+et") {
			t.Errorf("an error tells %s", told)
		}
	}
}

// The manifest had the secrets of addresses in plain text.
func TestTheManifestHoldsNoSecrets(t *testing.T) {
	const address = "s3::https://h/b/k?aws_access_key_secret=s3cret"
	source, err := ParseModuleSource(address, false)
	if err != nil {
		t.Fatal(err)
	}
	m := Manifest{}
	m["a"] = Installed{Source: Shown(source.Text), Dir: "d"}
	if text := string(m.Encode()); strings.Contains(text, "s3cret") {
		t.Error(text)
	}
	old, err := ParseManifest([]byte(`{"Modules":[{"Key":"a","Source":"` + address + `","Dir":"d"}]}`))
	if err != nil || old["a"].Source != m["a"].Source {
		t.Errorf("what OpenTofu has written is not recognized: %v, %v", old, err)
	}
}
