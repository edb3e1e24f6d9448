// SPDX-License-Identifier: Apache-2.0

// Package embedded is the distribution registry on a directory or in memory as an http.Handler. It
// opens no port and stores nothing outside of its directory: okara serve mounts it under /v2/, so
// that a machine with only okara has a registry.
//
// Deleting is enabled unless Options disable it. A blob may be sent with the
// POST that otherwise opens an upload, and a blob of another repository may be
// mounted. A [TagRule] can refuse that a tag moves or goes.
//
// A directory has one [Registry] or one [Collect] at a time: each holds a lock on the file
// .okara-lock, which the kernel releases when a process dies. The second one gets [ErrInUse].
//
// # Garbage
//
// A DELETE removes only a link; the space is freed by collection ([Registry.Collect],
// [Registry.Run], [Collect]). It keeps the content that the tags of a repository lead to, and its
// referrers; the tags of the referrers fallback and of cosign signatures do not count as tags while
// their subject is in the repository. It also keeps content younger than the minimum age: content
// that was written, or whose existence was reported to a client, within that time. A push sends
// blobs first and the tag last, so until it ends only their age protects them. A young manifest
// protects everything that it leads to.
//
// A collection reads all manifests while the server runs, then scans again
// while writers wait, and renames the removed files into the directory
// .okara-trash, which it empties after the writers continue. Reads do not wait.
//
// # A full disk
//
// A file of Options.Reserve bytes occupies space while there is some. When no other space is free,
// it shrinks by what the vital repositories write, and all other writes are refused until it has
// its full size again. An upload whose bytes do not all arrive, or that the disk does not accept,
// is removed at once; uploads of a killed server are removed when the directory is opened, since no
// client can continue them.
//
// # Damage
//
// A blob is hashed when it is read for the first time, and again when its file
// has changed. A damaged blob is answered with an error and logged; pushing
// clients see it as missing, so that pushing it again repairs it.
//
// Everything acknowledged is on the disk, except deletions: the files of a request, and those of
// other requests that it names, are synced together before the links that create a manifest and a
// tag, and before the answer (durable.go).
//
// What a tag named before is not written: only the library's own collection reads it.
//
// The library writes the link of a tag after its directory. A tag whose write was interrupted in
// between is removed when the directory is opened, or when the write fails.
//
// The library logs through the process-wide logrus logger. The first [New]
// silences it; errors go to Options.Logger.
package embedded
