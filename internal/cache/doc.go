// SPDX-License-Identifier: Apache-2.0

// Package cache keeps values that are slow to get, such as answers of a
// registry or the keys of an issuer, and renews them behind the back of those
// who ask.
//
// A [Cache] is bounded in bytes; the least recently used values go first. A
// [Policy] says how long a value is good, how long it is good enough while a
// newer one is fetched, and how long it is better than nothing while its origin
// is down. Identical misses are one load, which no caller owns: who stops
// waiting does not stop it for the others. "Not found" is remembered for a few
// seconds, so that a client cannot make the origin answer again and again.
//
// Values are shared by all who ask and must not be changed.
//
// # Archives on disk
//
// [Blobs] keeps archives on disk, so that a registry is asked for each of them
// once: a folder of files named by the SHA-256 of what they hold and a hash
// of the repository that they came from, up to a number of bytes; the least
// recently used go first. Since a file is found only through the repository that
// once gave it, the registry's own check of who has what holds for the cache too,
// after a restart as well, and without asking again. Processes may share the
// folder. Identical misses are one fetch, which no request owns. Its readers
// follow a [Spool], a file that is read while it grows, each at its own pace.
// The last bytes of a spool are held back until the digest of the whole is
// right, so nobody ever gets all of a wrong blob. What a crash leaves is
// removed at the next start.
package cache
