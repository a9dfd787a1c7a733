// Command releases writes the SPDX document of a program: the modules that it was built from, as the Go toolchain
// recorded them in it. It looks at nothing else, and finds no licences.
//
//	releases -out DOCUMENT PROGRAM
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "", "the document to write")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %s\n", err)
		os.Exit(1)
	}
}

func run(out string, programs []string) error {
	if out == "" || len(programs) != 1 {
		return errors.New("say where to, and which program: -out DOCUMENT PROGRAM")
	}
	path := programs[0]
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s is not a program that Go has built: %w", path, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(describe(filepath.Base(path), content, info), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

// document is an SPDX 2.3 document, as far as it is used here.
type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []pkg          `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	SPDXID           string      `json:"SPDXID"`
	Name             string      `json:"name"`
	VersionInfo      string      `json:"versionInfo,omitempty"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	LicenseConcluded string      `json:"licenseConcluded"`
	LicenseDeclared  string      `json:"licenseDeclared"`
	CopyrightText    string      `json:"copyrightText"`
	Checksums        []checksum  `json:"checksums,omitempty"`
	ExternalRefs     []reference `json:"externalRefs,omitempty"`
	Comment          string      `json:"comment,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Of   string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

// describe returns the document of a program. It is the same for the same program: its time is that of the revision.
func describe(name string, content []byte, info *debug.BuildInfo) document {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	created := time.Unix(0, 0).UTC().Format(time.RFC3339)
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			created = s.Value
		}
	}
	d := document{SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: name,
		DocumentNamespace: "https://github.com/millipede-iac/millipede/spdx/" + name + "-" + digest,
		CreationInfo:      creation{created, []string{"Tool: millipede-releases"}},
		Packages: []pkg{{SPDXID: "SPDXRef-program", Name: name, VersionInfo: info.Main.Version, DownloadLocation: unknown,
			LicenseConcluded: unknown, LicenseDeclared: "Apache-2.0", CopyrightText: unknown,
			Checksums: []checksum{{"SHA256", digest}}}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-program"}},
	}
	add := func(path, version, sum string) {
		id := "SPDXRef-" + regexp.MustCompile(`[^A-Za-z0-9.-]`).ReplaceAllString(path+"-"+version, "-")
		p := pkg{SPDXID: id, Name: path, VersionInfo: version, DownloadLocation: unknown, LicenseConcluded: unknown,
			LicenseDeclared: unknown, CopyrightText: unknown, ExternalRefs: []reference{{"PACKAGE-MANAGER", "purl",
				"pkg:golang/" + path + "@" + version}}}
		if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(hash) == 32 {
			p.Comment = "The hash of the module as go.sum has it: " + sum
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{"SPDXRef-program", "CONTAINS", id})
	}
	add("std", strings.TrimPrefix(info.GoVersion, "go"), "")
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, m.Sum)
	}
	return d
}
