// SPDX-License-Identifier: Apache-2.0

// Package auditlog keeps the changes by all processes of a server in the registry, where
// each of them can read them, and the decisions of this process in memory.
//
// [Log] provides a slog handler for audit records. The last 5,000 decisions of this
// process are kept. A change is a line of a part: a tag of the queue repository that
// belongs to one process and day. A part is written at most once a minute, in full each
// time, so no two processes write the same tag, and a crash loses at most the last
// minute. No request waits for it. While the registry is unavailable, lines wait in
// memory; when the memory is full, changes are dropped, and the next line says how many.
// [Writer] is for an audit log in a file: requests do not wait for it either, and nothing
// is dropped.
//
// # Format of a part
//
// The first line describes the part, the others are records:
//
//	{"format":1,"tag":"audit-20261122-…-0002","first":51}
//	{"n":51,"time":"2026-11-22T12:00:00Z","action":"publish",…}
//
// The records of a process are numbered from 1, across days and parts. A part is full at
// 1 MiB or 8192 lines, and ends with its day; if the clock is set back, the process
// continues in the latest day. With state keys a part is sealed for its repository and tag.
// [View] counts the parts that do not open. A user that may write to the repository can
// delete parts: only a log that is sent elsewhere is proof.
//
// Parts older than 90 days are not read, and are deleted a day later if the registry
// deletes tags. The newest 16 MiB of lines are held in memory; [Log.Each] reads the rest
// again.
//
// # Alternatives considered
//
// One tag for all processes was rejected: two writers would overwrite each other. One tag
// per record: a registry lists tags, and a page would read thousands. A chain of digests
// over the parts: whoever can delete parts can also delete what proves it.
package auditlog
