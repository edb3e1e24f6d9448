// SPDX-License-Identifier: Apache-2.0

// Package plugincache keeps the provider packages that inits of many root modules need,
// once each.
//
// The cache that the tools have themselves (TF_PLUGIN_CACHE_DIR) is written by whoever
// installs something, in place, so that two inits at once can break each other. Here
// nobody but okara writes: after an init has installed and verified a package, [Cache.Keep]
// moves it into the cache and leaves a link; before an init [Cache.Link] makes the links
// that the module's dependency lock file asks for. To the tool a linked package is one
// that is installed already, and it verifies it against the lock file as always.
//
// # Layout
//
//	DIR/HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/HASH/
//
// HASH is the h1 hash of the package in hexadecimal. So packages of one version with other
// content, from a mirror that builds its own, stand beside each other, and a link is only
// ever made to what a lock file names. A folder appears whole, by a rename, and never
// changes; a damaged one is replaced by what an init has verified. Deleting any of it, or
// all, costs a download. Before an init a link that leads nowhere is removed, and one that
// the lock file does not vouch for: terraform installs into the folder that it finds, also
// through a link.
//
// # For tools that must not write
//
// What a server runs is foreign code, which shares the packages by [Cache.Share]: outside of
// its sandbox okara asks the source for each package that the lock file names, as the run
// may ask, and so with its rights; fetches what the cache lacks, from a zip whose SHA-256
// and whose files are those that the source reported; and makes hard links in a folder of the
// run, which the sandbox shows to be read. Those links are hashed before the tool sees
// them. So a package that was damaged in the cache is found and fetched anew, nothing that
// happens to the cache later changes what a run has. What a run has is in the cache as well
// as long as it has it, so that the limit of [Cache.Within] is one of both. A run sees what it may have and no
// other package.
//
// The lock file says the same after init as without the cache: a package is given only
// where it has the zh: already, and its h1: is added, as the tool would. Without a lock file
// only the tool can choose versions; it fetches, and [Cache.Fill] fetches for those to come.
//
// # Who may write
//
// Whoever may write to the cache decides what runs as a provider until the tool verifies
// it, which it does in every init and not in every plan. So the cache is for one person, or
// for people who trust each other as they would with their home directory; it is made
// with mode 0700.
package plugincache
