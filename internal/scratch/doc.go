// SPDX-License-Identifier: Apache-2.0

// Package scratch has the temporary files and directories of okara, of which a
// process that is killed at any moment leaves nothing for good.
//
// A [File] has no name where the system can make such files, and loses it at once
// elsewhere. A [Dir] has a name, since an unpacked tree needs one, and a lock
// beside its content, which the kernel drops when the process ends however it
// ends: the next process of the same user that makes a directory or calls [Sweep]
// removes those whose lock is free. What is there at each moment of making and of
// removing one can be told from one in use, so that there is no time limit and no
// process number that may be used again.
//
// Limits: a network file system without locks keeps what is left; nothing is
// removed that others than this user can write to, so that a shared directory
// for temporary files is no way to other files.
package scratch
