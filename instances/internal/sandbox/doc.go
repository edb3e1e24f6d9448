// SPDX-License-Identifier: Apache-2.0

// Package sandbox owns the folder that the tool of a run can write.
//
// After the first foreign instruction ran, that folder is the tool's: whatever
// name in it may be a link to the storage of the server, a pipe that nobody
// writes to, or another file than a moment ago. So nobody else opens, makes,
// binds, removes or walks anything by a name in it. What they need of it they do
// through a [Workdir], which holds the folder itself and follows no link; what
// they tell the tool of it is a [Path], which no function of package os takes.
//
// In isolation "sandbox" the folder is one file system in memory, mounted by
// [Enter] in a namespace of mounts that the child of the run has for itself. All
// that a tool can write lies in it, so the kernel bounds it as a whole; no name of
// the host leads there, and it ends with the run. Its parts are bound into the
// sandbox from beside each other: the tool sees them through the bind alone, and
// can put nothing in the place of a source. The one file on disk is the state that
// a tool could not store, which must outlive the run: see [Errored].
package sandbox
