// SPDX-License-Identifier: Apache-2.0

// Package diskfile writes files into folders of the user, and reads their secrets.
//
// A file is written under a temporary name in its own folder and then renamed.
// Who reads it finds the old content or the new one, never half of it, and a
// process that is killed leaves at most a file .okara-* beside it. A link of that
// name is replaced; what it points to is not touched. The file gets exactly the
// mode that is asked for, whatever the umask is; until then only its owner can
// read it.
//
// The content is not forced to the disk before the rename: after a loss of power
// the file may be empty. What must survive that is kept in a registry.
package diskfile
