// SPDX-License-Identifier: Apache-2.0

// Package archive makes deterministic archives from a tree of files and unpacks
// archives of strangers safely.
//
// [List] walks a tree and decides what ships; [Tree.Pack] writes the same files
// as tar.gz and as zip. The same tree gives the same bytes on every machine:
// names are sorted by byte, times are 1980-01-01T00:00:00Z, modes are 0644 or
// 0755, owners are 0, and the compressor is pinned by go.mod and not by the Go
// release. The digest of the uncompressed tar is the identity of the content,
// so that even a new compressor does not turn one content into two.
//
// # What is left out
//
// Files named .terraformignore and .tfignore rule their directory and below, with
// the semantics of gitignore. The last rule that matches wins; rules of deeper
// directories come after those of shallower ones, and in one directory .tfignore
// comes after .terraformignore. Below an excluded directory nothing can be
// included again. Every name that starts with ".git" and the ignore files
// themselves never ship; .terraform/, *.tfstate, *.tfstate.*, crash.log,
// crash.*.log and .DS_Store do not unless an ignore file says so with "!".
//
// # What is refused
//
// Symbolic links, devices, names that are not UTF-8 or that differ only in case,
// and trees over the limits of [Limits]. Unpacking also refuses absolute names,
// "..", and archives that expand too far. Names cost nothing in an archive, so
// directories count, also those that only stand above a file, and depth, paths
// and names are bounded. So are ignore files: how many, how many rules, how long
// and with how many wildcards, and the work of matching. What is refused wraps [ErrUnsafe] or
// [ErrTooLarge].
//
// Alternatives considered: go-git's gitignore package matches a prefix of the
// path, so that "!docs" also includes docs/a.txt again, and does not backtrack in
// "a/**/b/c"; the tests compare the rules here with git itself.
package archive
