// SPDX-License-Identifier: Apache-2.0

package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestAFileIsThereAsAWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, Write(path, text("first")))
	failed := errors.New("half of it")
	require.ErrorIs(t, Write(path, func(w io.Writer) error { return errors.Join(text("sec")(w), failed) }), failed)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "first", string(content))
	require.NoError(t, Write(path, text("second")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	assert.EqualValues(t, len("second"), info.Size())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file is left")
	require.ErrorContains(t, Write(filepath.Dir(path), text("x")), "is no regular file")
	require.ErrorContains(t, Write(os.DevNull, text("x")), "is no regular file")
	require.ErrorIs(t, Write(filepath.Join(filepath.Dir(path), "below", "it"), text("x")), os.ErrNotExist, "a folder that is not there")
}
