// SPDX-License-Identifier: Apache-2.0

// Package plugincache stores provider packages once for the inits of many root modules.
//
// The cache of the tools themselves (TF_PLUGIN_CACHE_DIR) is written in place by every init,
// so that two inits at once can break each other. Here only okara writes: after an init has
// installed and verified a package, [Cache.Keep] moves it into the cache and leaves a link;
// before an init [Cache.Link] makes the links for the module's dependency lock file. To the
// tool a linked package is already installed, and it verifies the package against the lock
// file as always.
//
// # Layout
//
//	DIR/HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/HASH/
//
// HASH is the h1 hash of the package in hexadecimal. So packages of one version with
// different content, as from a mirror with its own builds, are kept side by side, and links
// only lead to packages that a lock file names. A folder appears complete, by a rename, and
// never changes; a damaged one is replaced by a package that an init has verified. Anything
// in the cache may be deleted and is downloaded again. Before an init dangling links are
// removed, and links that the lock file does not name: terraform installs into the folder
// that it finds, also through a link.
//
// # For tools that must not write
//
// A server runs foreign code, which shares packages by [Cache.Share]. Outside of the sandbox
// okara asks the source for each package in the lock file, with the rights of the run, and
// fetches what the cache lacks: from a zip whose SHA-256 and files must match those that the
// source reported. It then makes hard links in a folder of the run, which the sandbox shows
// read-only, and hashes the linked files before the tool sees them. So a package that is
// damaged in the cache is found and fetched again, and later changes of the cache do not
// affect the run. A package in use by a run stays in the cache until the run ends, so the
// limit of [Cache.Within] covers both. A run sees only the packages that it may have.
//
// The lock file is the same after init as without the cache: a package is linked only if the
// lock file has its zh: already, and its h1: is added, as the tool would. Without a lock file
// only the tool can choose versions; it fetches them, and [Cache.Fill] does so for later runs.
//
// # Who may write
//
// Write access to the cache decides what runs as a provider until the tool verifies it,
// which it does in every init but not in every plan. So the cache is for one user, or for
// users who trust one another as with their home directories; its mode is 0700.
package plugincache
