// SPDX-License-Identifier: Apache-2.0

package archive

import "errors"

var (
	// ErrUnsafe says that a tree or an archive holds something that okara does
	// not ship: a link, an escaping name, a device.
	ErrUnsafe = errors.New("refused")
	// ErrTooLarge says that a limit was passed.
	ErrTooLarge = errors.New("over the limit")
)

// Limits bound a tree or an archive. A zero field means its default.
type Limits struct {
	Files    int   // number of files, default 10 000
	Dirs     int   // number of directories, those above files included, default 10 000
	Bytes    int64 // all files uncompressed, default 512 MiB
	FileSize int64 // one file uncompressed, default 128 MiB
}

func (l Limits) withDefaults() Limits {
	if l.Files == 0 {
		l.Files = 10_000
	}
	if l.Dirs == 0 {
		l.Dirs = 10_000
	}
	if l.Bytes == 0 {
		l.Bytes = 512 << 20
	}
	if l.FileSize == 0 {
		l.FileSize = 128 << 20
	}
	return l
}
