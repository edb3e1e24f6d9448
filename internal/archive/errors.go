// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrUnsafe means an entry that okara does not ship: a link, an escaping name, a device.
	ErrUnsafe = errors.New("refused")
	// ErrOutside means that a symbolic link leaves the tree.
	ErrOutside = errors.New("outside the package")
	// ErrTooLarge means that a limit was exceeded.
	ErrTooLarge = errors.New("limit exceeded")
)

// MaxFiles is the default of Limits.Files.
const MaxFiles = 50_000

// maxNames bounds all names of a tree or archive together, in bytes.
const maxNames = 8 << 20

// Limits bound a tree or archive; zero is the default. What is packed within the defaults can be
// unpacked, however well it compresses.
type Limits struct {
	Files    int   // number of files and links, default MaxFiles
	Dirs     int   // number of directories, including those above files, default 50 000
	Bytes    int64 // all files uncompressed, default 512 MiB
	FileSize int64 // one file uncompressed, default 128 MiB
}

func (l Limits) withDefaults() Limits {
	l.Files = cmp.Or(l.Files, MaxFiles)
	l.Dirs = cmp.Or(l.Dirs, MaxFiles)
	l.Bytes = cmp.Or(l.Bytes, 512<<20)
	l.FileSize = cmp.Or(l.FileSize, 128<<20)
	return l
}

// usage is what a tree or an archive has used of its limits.
type usage struct {
	files, dirs, names int
	bytes              int64
}

func (u *usage) countEntry(name string, kind fs.FileMode, l Limits) error {
	if kind.IsDir() {
		u.dirs++
	} else {
		u.files++
	}
	switch {
	case u.files > l.Files:
		return fmt.Errorf("more than %d files: %w", l.Files, ErrTooLarge)
	case u.dirs > l.Dirs:
		return fmt.Errorf("more than %d directories: %w", l.Dirs, ErrTooLarge)
	}
	return u.addName(name)
}

func (u *usage) addName(name string) error {
	if u.names += len(name); u.names > maxNames {
		return fmt.Errorf("names exceed %d bytes: %w", maxNames, ErrTooLarge)
	}
	return nil
}
