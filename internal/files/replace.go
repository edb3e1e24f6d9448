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

// WriteOutput is Replace for a user's file, which may be a device or pipe as /dev/stdout.
func WriteOutput(name string, content []byte, mode fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target // a link stays one, as /dev/stdout of a shell's > FILE
	}
	if i, err := os.Stat(name); err != nil || i.Mode().IsRegular() {
		return Replace(name, content, mode)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// ReplaceWith is Replace with what write writes; if it fails, the old file stays.
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
