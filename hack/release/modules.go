// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// writeModules writes, for each program of each platform, the list of its modules, and the licences of all of them.
func writeModules(ctx context.Context, o options) error {
	programs, err := filepath.Glob(filepath.Join(o.out, "programs", "*", "*"))
	if err != nil {
		return err
	}
	if len(programs) == 0 {
		return fmt.Errorf("%s/programs has no programs", o.out)
	}
	linked, goVersion := map[debug.Module]bool{}, ""
	for _, file := range programs {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return err
		}
		binary, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		modules := modulesOf(info, o.version)
		for _, m := range modules {
			linked[m] = true
		}
		goVersion = info.GoVersion
		name, platform := filepath.Base(file), filepath.Base(filepath.Dir(file))
		list, err := json.MarshalIndent(bill(o, name, platform, binary, info.GoVersion, modules), "", "  ")
		if err != nil {
			return err
		}
		if err := write(filepath.Join(o.out, "sbom", name+"_"+platform+".spdx.json"), append(list, '\n')); err != nil {
			return err
		}
	}
	return writeLicences(ctx, o, goVersion, slices.SortedFunc(maps.Keys(linked), compareModules))
}

// modulesOf returns the modules that a program was linked from. Those of this repository have the version of the release: each has
// a tag of its own (CONTRIBUTING.md). A module that was edited in a folder has its own path and version, and no sum.
func modulesOf(info *debug.BuildInfo, version string) (modules []debug.Module) {
	for _, m := range info.Deps {
		switch r := m.Replace; {
		case ours(*m):
			m = &debug.Module{Path: m.Path, Version: version}
		case r != nil && !folder.MatchString(r.Path):
			m = r
		}
		modules = append(modules, debug.Module{Path: m.Path, Version: m.Version, Sum: m.Sum})
	}
	slices.SortFunc(modules, compareModules)
	return slices.Compact(modules)
}

// ours reports whether a module is one of this repository.
func ours(m debug.Module) bool { return strings.HasPrefix(m.Path+"/", "berth.dev/berth/") }

// folder matches the path of a folder, as a go.mod file has it.
var folder = regexp.MustCompile(`^(\.|/|[A-Za-z]:)`)

func compareModules(a, b debug.Module) int {
	return strings.Compare(a.Path+"@"+a.Version, b.Path+"@"+b.Version)
}

// document is a document of SPDX 2.3: spdx.github.io/spdx-spec/v2.3.
type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []spdxPackage  `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	SPDXID           string     `json:"SPDXID"`
	Name             string     `json:"name"`
	VersionInfo      string     `json:"versionInfo"`
	Purpose          string     `json:"primaryPackagePurpose"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseConcluded string     `json:"licenseConcluded"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	CopyrightText    string     `json:"copyrightText"`
	Comment          string     `json:"comment,omitempty"`
	Checksums        []checksum `json:"checksums,omitempty"`
	ExternalRefs     []external `json:"externalRefs"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const noAssertion = "NOASSERTION"

// bill returns the list of what a program was linked from.
func bill(o options, name, platform string, binary []byte, goVersion string, modules []debug.Module) document {
	sum := sha256.Sum256(binary)
	program := goPackage("berth.dev/berth/cmd/"+name, o.version)
	program.SPDXID, program.Name, program.Purpose, program.LicenseDeclared = "SPDXRef-Program", name, "APPLICATION", "Apache-2.0"
	program.Comment = platform + ", commit " + o.revision
	program.Checksums = []checksum{{"SHA256", hex.EncodeToString(sum[:])}}
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: name + " " + o.version + " " + platform,
		DocumentNamespace: "https://berth.dev/spdx/" + strings.Join([]string{name, o.version, platform, o.revision}, "/"),
		CreationInfo:      creation{o.date.Format("2006-01-02T15:04:05Z"), []string{"Tool: berth.dev/berth/hack/release"}},
		Packages:          []spdxPackage{program},
		Relationships:     []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", program.SPDXID}},
	}
	for _, m := range append([]debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(goVersion, "go")}}, modules...) {
		p := goPackage(m.Path, m.Version)
		if m.Sum != "" {
			p.Comment = "go.sum: " + m.Sum
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{program.SPDXID, "STATIC_LINK", p.SPDXID})
	}
	return d
}

// notInID are the characters that an id of SPDX must not have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func goPackage(path, version string) spdxPackage {
	return spdxPackage{
		SPDXID: "SPDXRef-" + notInID.ReplaceAllString(path+"-"+version, "-"), Name: path, VersionInfo: version, Purpose: "LIBRARY",
		DownloadLocation: noAssertion, LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, CopyrightText: noAssertion,
		ExternalRefs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}},
	}
}

// licence matches the files of a module that have its licence, and notices that must be passed on.
var licence = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|copyright|patents)([.-].*)?$`)

// writeLicences copies the licences of the modules, Go and Berth to licenses/MODULE@VERSION.
func writeLicences(ctx context.Context, o options, goVersion string, modules []debug.Module) error {
	goroot, err := command(ctx, o, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	folders := map[string]string{"berth@" + o.version: o.root, "go@" + strings.TrimPrefix(goVersion, "go"): strings.TrimSpace(string(goroot))}
	args := []string{"mod", "download", "-json"}
	for _, m := range slices.DeleteFunc(modules, ours) {
		args = append(args, m.Path+"@"+m.Version)
	}
	out, err := command(ctx, o, "go", args...)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for decoder.More() {
		var m struct{ Path, Version, Dir string }
		if err := decoder.Decode(&m); err != nil {
			return err
		}
		folders[m.Path+"@"+m.Version] = m.Dir
	}
	var missing error
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		missing = errors.Join(missing, copyLicences(folders[name], filepath.Join(o.out, "licenses", filepath.FromSlash(name))))
	}
	return missing
}

// copyLicences copies the licences of a module. A module without one must not be passed on.
func copyLicences(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licence.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, e.Name()), text); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no file with a licence", from)
	}
	return nil
}
