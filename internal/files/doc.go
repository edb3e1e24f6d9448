// SPDX-License-Identifier: Apache-2.0

// Package files writes files into directories of the user, reads files with
// secrets, and creates temporary files and directories.
//
// # Replacing
//
// [Replace] writes a file under a temporary name in the target directory and
// then renames it. A reader sees the old content or the new one, never a part
// of it, and a process that is killed leaves at most a file .okara-* beside it.
// A link with the target name is replaced; its target is not changed. The file
// gets exactly the requested mode, regardless of the umask; until then only its
// owner can read it.
//
// The content is not synced before the rename: after a power failure the file
// may be empty. Data that must survive a power failure is stored in a registry.
//
// # Temporary files
//
// A process that is killed at any time leaves nothing permanently. A [TempFile]
// has no name if the system supports that, and otherwise loses its name at
// once. A [TempDir] has a name, since an unpacked tree needs one, and a lock
// beside its content, which the kernel releases when the process ends in any
// way: the next process of the same user that creates a directory or calls
// [CleanUp] removes those whose lock is free. A directory that is being created
// or removed can always be distinguished from one in use, so there is no time
// limit, and no process number that may be reused.
//
// Limits: on a network file system without locks nothing is cleaned up. Nothing
// is removed that users other than this one can write to, so a shared temporary
// directory gives no access to other files.
package files
