// SPDX-License-Identifier: Apache-2.0

// Package embedded is the distribution registry on a directory or in memory
// as an http.Handler. It opens no port and keeps nothing outside of its
// directory: okara serve mounts it under /v2/ so that a machine with nothing
// but okara has a registry.
//
// Deleting is enabled unless switched off. Upload purging is off: a cut
// upload leaves its part in the directory until [Collect] runs.
//
// [Collect] removes what no manifest points to. A blob that was just pushed
// and whose manifest is still on its way looks the same as garbage, so a
// collection wants the directory for itself: each [Registry] holds a shared
// lock on the file .okara-lock, [Collect] an exclusive one, and neither waits
// for the other.
//
// Blobs in a directory are read by this package itself (blob.go): the library's
// reader takes 4 MiB of memory for each.
//
// The library logs through the process-wide logrus logger. The first [New]
// silences that one; errors go to Options.Logger.
package embedded
