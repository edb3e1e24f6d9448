// SPDX-License-Identifier: Apache-2.0

// Package modulelock keeps a lock of the modules of a root module, .okara.lock.hcl, and compares it
// with what init has installed.
//
// # What is hashed
//
// A hash is h1: of golang.org/x/mod/sumdb/dirhash over the files of a package, the folder
// .terraform/modules/KEY of a call, without the names that begin with a dot, in any folder: both tools
// install a package that two calls use once, and copy it for the second call without these names
// (internal/copy in OpenTofu 1.12.6, internal/copy in Terraform 1.16). So .git of a clone does not count
// either. A link counts as its target's path. Modes do not count, and line ends do, as on disk.
//
// Packages are named as in modules.json, without folder, ref and what may be a secret.
package modulelock
