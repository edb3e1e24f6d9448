// SPDX-License-Identifier: Apache-2.0

// Package cache caches values that are slow to get, such as answers of a
// registry or the keys of an issuer, and refreshes them in the background.
//
// A [Cache] is bounded in bytes; the least recently used values are removed first. A [Policy]
// defines how long a value is fresh, how long it is served while a newer one is fetched, and how
// long it is served while its origin is unavailable. Identical misses share one load, which belongs
// to no caller: a caller that stops waiting does not stop it for the others. "Not found" is
// remembered for a few seconds, so that a client cannot make the origin answer again and again.
//
// Values are shared by all callers and must not be changed.
//
// # Archives on disk
//
// [Blobs] caches archives on disk, so that each is read from the registry once: a directory of
// files named by the SHA-256 of their content and a hash of the repository that they came from, up
// to a number of bytes; the least recently used are removed first. Since a file is found only
// through the repository that provided it, the registry's own check of access to blobs also holds
// for the cache, even after a restart, and without another request. Processes may share the
// directory. Identical misses share one fetch, which belongs to no request. Its readers follow a
// [Spool], a file that is read while it grows, each at its own pace. The last bytes of a spool are
// held back until the digest of the whole is verified, so no reader ever gets all of a wrong blob.
// Remains of a crash are removed at the next start.
package cache
