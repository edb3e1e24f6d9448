// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Remove removes the scratch folder of an attempt, including unwritable folders that a
// tool made. It follows no link.
func Remove(scratch string) error {
	err := os.RemoveAll(scratch)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return err
	}
	defer root.Close()
	unlock(root, ".")
	return os.RemoveAll(scratch)
}

func removeIn(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	unlock(root, name)
	return root.RemoveAll(name)
}

// unlock makes a folder and all folders in it writable, so that they can be removed.
func unlock(root *os.Root, name string) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() || root.Chmod(name, 0o700) != nil {
		return
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(name))
	if err != nil {
		return
	}
	for _, e := range entries {
		unlock(root, filepath.Join(name, e.Name()))
	}
}
