// SPDX-License-Identifier: Apache-2.0

// Package embedded is the distribution registry on a directory or in memory
// as an http.Handler. It opens no port and keeps nothing outside of its
// directory: okara serve mounts it under /v2/ so that a machine with nothing
// but okara has a registry.
//
// Deleting is enabled unless switched off. Upload purging is off: a cut
// upload leaves its part under _uploads until [Collect] runs. There is no
// descriptor cache, so a collection in another process cannot make the
// handler promise blobs that are gone.
//
// The library logs through the process-wide logrus logger. The first [New]
// silences that one; errors go to Options.Logger.
package embedded
