// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace gives the file this content, whole or not at all.
func Replace(name string, content []byte, mode fs.FileMode) error {
	return ReplaceWith(name, mode, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// ReplaceWith is Replace with what write puts into the new file. An error of write
// leaves the old one as it is.
func ReplaceWith(name string, mode fs.FileMode, write func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".okara-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	err = write(tmp)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
