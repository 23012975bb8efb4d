// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAFileOfPricesIsNamedInItsErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(file, []byte("date: 2026-11-01\ndiscountPercent: -1\n"), 0o600))
	_, err := (&Prices{File: file}).Book()
	assert.ErrorContains(t, err, "prices.yaml: discountPercent: Invalid value: -1")
	_, err = (&Prices{File: filepath.Join(t.TempDir(), "none")}).Book()
	assert.ErrorIs(t, err, os.ErrNotExist)
}
