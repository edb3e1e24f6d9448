// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace atomically replaces the content of a file.
func Replace(name string, content []byte, mode fs.FileMode) error {
	return ReplaceWith(name, mode, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// ReplaceWith is Replace with the content that write writes to the new file. If
// write fails, the old file is kept.
func ReplaceWith(name string, mode fs.FileMode, write func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".okara-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // no longer exists after the rename
	err = write(tmp)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
