// SPDX-License-Identifier: Apache-2.0

// Command prices makes the tables of internal/mix/prices of public lists, which it takes from the Go module proxy as data.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// list is a public list of prices in a Go module.
type list struct {
	module, version, file string
	// table is the name of the table that is made of it.
	table                 string
	source, licence, date string
	read                  func(data []byte) ([]price, error)
}

const (
	instancesModule  = "github.com/cristim/ec2-instances-info"
	instancesVersion = "v0.0.0-20250528091325-32acf84f42eb"
	instancesDate    = "2025-05-28"
	instancesLicence = "MIT, Copyright (c) 2013 Garret Heaton"
)

var lists = []list{
	{
		"github.com/aws/karpenter-provider-aws", "v1.15.2", "pkg/providers/pricing/zz_generated.pricing_aws.go", "aws-2026",
		"AWS on-demand prices of karpenter-provider-aws v1.15.2", "Apache-2.0", "2026-07-20", karpenter,
	},
	{
		instancesModule, instancesVersion, "data/instances.json", "aws-2025",
		"AWS prices of ec2instances.info", instancesLicence, instancesDate, amazon,
	},
	{
		instancesModule, instancesVersion, "data/azure-instances.json", "azure-2025",
		"Azure prices of ec2instances.info, spot at its lowest", instancesLicence, instancesDate, azure,
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prices DIRECTORY")
		os.Exit(2)
	}
	for i := range lists {
		n, err := lists[i].write(os.Args[1])
		if err != nil {
			fmt.Fprintf(os.Stderr, "prices: %s: %v\n", lists[i].table, err)
			os.Exit(1)
		}
		fmt.Printf("%s.csv.gz: %d prices of %s\n", lists[i].table, n, lists[i].date)
	}
}

// price is a row of a table, with prices in dollars an hour, 0 for none.
type price struct {
	instanceType, region string
	onDemand, spot       float64
	band                 int
}

func (l *list) write(dir string) (int, error) {
	data, err := l.download()
	if err != nil {
		return 0, err
	}
	all, err := l.read(data)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(all, func(a, b price) int {
		return cmp.Or(cmp.Compare(a.instanceType, b.instanceType), cmp.Compare(a.region, b.region))
	})
	var text bytes.Buffer
	fmt.Fprintf(&text, "# source: %s\n# licence: %s\n# date: %s\ntype,region,onDemand,spot,band\n", l.source, l.licence, l.date)
	for _, p := range all {
		fmt.Fprintf(&text, "%s,%s,%s,%s,%s\n", p.instanceType, p.region, dollars(p.onDemand, 4), dollars(p.spot, 3), strings.TrimPrefix(strconv.Itoa(p.band), "0"))
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	_, err = z.Write(text.Bytes())
	if err = errors.Join(err, z.Close()); err != nil {
		return 0, err
	}
	return len(all), os.WriteFile(filepath.Join(dir, l.table+".csv.gz"), packed.Bytes(), 0o600)
}

// dollars is a price with so many significant digits: more than what prices change in a month.
func dollars(price float64, digits int) string {
	if price <= 0 {
		return ""
	}
	return strconv.FormatFloat(price, 'g', digits, 64)
}

// download returns a file of the module. A module that requires a newer Go is downloaded, too, and reported as an error.
func (l *list) download() ([]byte, error) {
	cmd := exec.Command("go", "mod", "download", "-json", l.module+"@"+l.version)
	cmd.Dir = os.TempDir() // in no module
	out, err := cmd.Output()
	module := struct{ Zip, Error string }{}
	if json.Unmarshal(out, &module) != nil || module.Zip == "" {
		return nil, errors.Join(fmt.Errorf("download %s@%s: %s", l.module, l.version, module.Error), err)
	}
	archive, err := zip.OpenReader(module.Zip)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	f, err := archive.Open(l.module + "@" + l.version + "/" + l.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
