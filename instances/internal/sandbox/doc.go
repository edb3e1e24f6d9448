// SPDX-License-Identifier: Apache-2.0

// Package sandbox is what the supervisor of an attempt and its child agree on: the [Order]
// of the child, how the tool runs apart from the rest of the machine, by which processes
// an attempt is found, and the folder that the tool can write. They know nothing else of
// each other.
//
// Once untrusted code has run, that folder belongs to the tool: any name in it may be a
// link to the storage of the server, a pipe without a writer, or a different file than
// before. So no other code opens, makes, binds, removes or walks anything by a name in
// it. Access goes through a [Workdir], which holds the open folder and follows no link;
// names passed to the tool are a [Path], which no function of package os takes.
//
// In isolation "sandbox" the folder is a file system in memory, mounted by [Enter] in the
// child's own mount namespace. All that a tool can write is in it, so the kernel limits
// its size as a whole; no name of the host leads there, and it ends with the run. Its
// parts are sibling folders that are bound into the sandbox: the tool sees them only
// through the bind, and cannot replace a source. The one file on disk is a state that the
// tool could not store, which must outlive the run: see [Errored].
package sandbox
