// SPDX-License-Identifier: Apache-2.0

// Package archive creates deterministic archives from a tree of files and
// safely unpacks untrusted archives.
//
// [List] walks a tree and selects the files to ship; [Tree.Pack] writes the same files as tar.gz
// and as zip. The same tree gives the same bytes on every machine: names are sorted by byte, times
// are 1980-01-01T00:00:00Z, modes are 0644 or 0755, owners are 0, and the compressor is pinned by
// go.mod and not by the Go release. The digest of the uncompressed tar identifies the content, so
// that even a new compressor does not turn one content into two.
//
// # Excluded files
//
// Files named .terraformignore and .tfignore apply to their directory and below, with the semantics
// of gitignore. The last matching rule wins; rules of deeper directories come after those of
// shallower ones, and in one directory .tfignore comes after .terraformignore. Below an excluded
// directory nothing can be included again. Names that start with ".git" and the ignore files
// themselves never ship; .terraform/, *.tfstate, *.tfstate.*, crash.log, crash.*.log and .DS_Store
// do not unless an ignore file includes them with "!".
//
// # Refused content
//
// Symbolic links ship as what they lead to. Refused are links that leave the tree, devices, names
// that are not UTF-8 or that differ only in case, and trees over the limits of [Limits]. Unpacking
// also refuses absolute names and "..". The limits are the same for packing and for unpacking, and
// a ratio of compression is not among them: what was packed can be unpacked. Names compress to
// almost nothing in an archive, so directories count, including those that only contain a file, and
// depth, paths and names are bounded. Ignore files are also bounded: their number, the number,
// length and wildcards of rules, and the work of matching. The errors wrap [ErrUnsafe] or
// [ErrTooLarge].
//
// Alternatives considered: go-git's gitignore package matches a prefix of the
// path, so that "!docs" also includes docs/a.txt again, and does not backtrack
// in "a/**/b/c"; the tests compare the rules here with git itself.
package archive
