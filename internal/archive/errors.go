// SPDX-License-Identifier: Apache-2.0

package archive

import "errors"

var (
	// ErrUnsafe means that a tree or an archive contains an entry that okara
	// does not ship: a link, an escaping name, a device.
	ErrUnsafe = errors.New("refused")
	// ErrTooLarge means that a limit was exceeded.
	ErrTooLarge = errors.New("over the limit")
)

// Limits bound a tree or an archive. A zero field means its default.
type Limits struct {
	Files    int   // number of files, default 10 000
	Dirs     int   // number of directories, including those above files, default 10 000
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
