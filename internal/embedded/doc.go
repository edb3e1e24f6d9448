// SPDX-License-Identifier: Apache-2.0

// Package embedded is the distribution registry on a directory or in memory
// as an http.Handler. It opens no port and keeps nothing outside of its
// directory: okara serve mounts it under /v2/ so that a machine with nothing
// but okara has a registry.
//
// Deleting is enabled unless switched off. A blob may come with the POST that
// else opens an upload, and one of another repository be mounted.
//
// A directory has one [Registry] or one [Collect] at a time: each holds a lock
// on the file .okara-lock, which the kernel gives free when a process dies, and
// who comes second gets [ErrInUse].
//
// # Garbage
//
// Nothing is removed by a DELETE but a link; the space comes back by collection
// ([Registry.Collect], [Registry.Run], [Collect]). What stays is what the tags
// of a repository lead to, and what refers to that; the tags of the referrers
// fallback and of cosign signatures do not count as tags while their subject is
// in the repository. So does what is young: was written, or was said to exist
// to a client that asked, within the least age. A push sends blobs first and
// the tag last, and while it is on its way only their age protects them. A
// manifest that is young protects all that it leads to.
//
// A collection reads all manifests beside the server, then looks again with
// writers waiting, and renames what goes into the folder .okara-trash, which
// it empties when they go on. Reading does not wait.
//
// # A full disk
//
// A file of Options.Reserve bytes takes room while there is some. When nothing
// else is free it is cut by what the vital repositories write, and nobody else may
// write until it is whole again. An upload whose bytes do not all come, or that
// the disk does not take, is removed at once; one of a killed server when the
// directory is opened, since no client can go on with it.
//
// # Damage
//
// A blob is hashed when it is read for the first time, and again when its file
// has changed. One with other bytes is answered with an error and logged; it is
// missing to those who push, so that pushing it again mends it.
//
// What is acknowledged is on the disk, but that something was deleted: the files of a request
// are waited for together, and those of others that it names,
// before the links that make a manifest and a tag, and before the answer (durable.go).
//
// The library writes the link of a tag after its folder. A tag that was cut off
// in between is removed when the directory is opened, or when the write fails.
//
// The library logs through the process-wide logrus logger. The first [New]
// silences that one; errors go to Options.Logger.
package embedded
