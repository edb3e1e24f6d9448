// SPDX-License-Identifier: Apache-2.0

// Package modulelock keeps a lock of the modules of a root module, .okara.lock.hcl, and compares it
// with what init has installed.
//
// # What is hashed
//
// A hash is h1: of golang.org/x/mod/sumdb/dirhash over the files of a package, the folder
// .terraform/modules/KEY of a call. A package has two: of all files, and of those without names that begin
// with a dot, in any folder. Both tools install a package that two calls use once, and copy it for the
// second call without these names (internal/copy in OpenTofu 1.12.6 and Terraform 1.16.4). A call matches
// if the hash of all of its files is one of the two. .git and .hg at the top of a package do not count, and no module may be read from there. A link counts
// as its target's path, as would a file with that content, and must stay in the package. Modes do not count, and line ends do, as on disk.
//
// The tools read a module from Dir in modules.json, whatever its key: it must be in the package, or the
// folder that a local source names. Packages are named as there, without folder, ref and what may be a
// secret. Records of calls that are gone, which the tools keep, do not count.
package modulelock
