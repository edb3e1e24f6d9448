// SPDX-License-Identifier: Apache-2.0

// Package files writes files into folders of the user, reads their secrets, and
// makes temporary files and directories.
//
// # Replacing
//
// [Replace] writes a file under a temporary name in its own folder and then renames
// it. A reader finds the old content or the new one, never half of it, and a
// process that is killed leaves at most a file .okara-* beside it. A link of that
// name is replaced; what it points to is not touched. The file gets exactly the
// mode that is asked for, whatever the umask is; until then only its owner can
// read it.
//
// The content is not forced to the disk before the rename: after a loss of power
// the file may be empty. What must survive that is kept in a registry.
//
// # Temporary files
//
// A process that is killed at any moment leaves nothing for good. A [TempFile] has
// no name where the system can make such files, and loses it at once elsewhere. A
// [TempDir] has a name, since an unpacked tree needs one, and a lock beside its
// content, which the kernel drops when the process ends, however it ends: the next
// process of the same user that makes a directory or calls [CleanUp] removes those
// whose lock is free. A directory that is being made or removed can be distinguished from
// one in use at each moment, so there is no time limit, and no process number that
// may be used again.
//
// Limits: a network file system without locks keeps what is left; nothing is
// removed that others than this user can write to, so a shared directory for
// temporary files is no way to other files.
package files
