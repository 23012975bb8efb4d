// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"compress/gzip"
	"embed"
	"fmt"
	"sync"
)

// files are made by hack/prices of public lists.
//
//go:embed tables/*.csv.gz
var files embed.FS

// tables are the embedded tables, the newest first.
var tables = []string{"aws-2026.csv.gz", "aws-2025.csv.gz", "azure-2025.csv.gz"}

// embedded reads the tables once.
var embedded = sync.OnceValues(func() (all []*Table, err error) {
	for _, name := range tables {
		t, err := readEmbedded("tables/" + name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, t)
	}
	return all, nil
})

func readEmbedded(name string) (*Table, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return ReadTable(plain)
}
