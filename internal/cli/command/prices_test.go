// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/pricefeed"
)

func TestAFileOfPricesIsNamedInItsErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(file, []byte("date: 2026-11-01\ndiscountPercent: -1\n"), 0o600))
	_, err := (&Prices{Own: pricefeed.Own{File: file}}).Options(t.Context(), nil, priced)
	assert.ErrorContains(t, err, "prices.yaml: discountPercent: Invalid value: -1")
	_, err = (&Prices{Own: pricefeed.Own{File: filepath.Join(t.TempDir(), "none")}}).Options(t.Context(), nil, priced)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
