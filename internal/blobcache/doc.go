// SPDX-License-Identifier: Apache-2.0

// Package blobcache keeps archives on disk by repository and digest, so that a
// registry is asked for each of them once.
//
// A [Cache] is a folder of files named by the SHA-256 of what they hold and a hash
// of the repository that they came from, up to a number of bytes; the least
// recently used go first. Since a file is found only through the repository that
// once gave it, the registry's own check of who has what holds for the cache too,
// after a restart as well, and without asking again. Processes may share the
// folder. Identical misses are one fetch, which no request owns. Its readers
// follow a [Spool], a file that is read while it grows, each at its own pace.
// The last bytes of a spool are held back until the digest of the whole is
// right, so nobody ever gets all of a wrong blob. What a crash leaves is
// removed at the next start.
package blobcache
