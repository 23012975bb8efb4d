// SPDX-License-Identifier: Apache-2.0

// Package wholefile writes files that are there as a whole or not at all.
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write writes a file that its owner alone may read, by a function. If that fails, a file of the name stays as it is. What is no regular
// file, such as a device, is refused: it would be replaced.
func Write(path string, write func(io.Writer) error) (err error) {
	if err := Check(path); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // it may be closed already
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// Check reports whether there is something at a path that Write would not replace, or no folder for it.
func Check(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	switch info, err := os.Stat(filepath.Dir(path)); {
	case err != nil:
		return fmt.Errorf("the folder of %s: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", filepath.Dir(path))
	}
	return nil
}
