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
//	{"format":1,"tag":"audit-20261122-…-0002","first":51,"before":{"tag":"…-0001","digest":"sha256:…"},"others":[{"tag":"…","n":7}]}
//	{"n":51,"time":"2026-11-22T12:00:00Z","action":"publish",…}
//
// The records of a process are numbered from 1, across days and parts. "before" has the
// digest of all lines of the previous part. "others" has the newest records of other
// processes when the part began. A part is full at 1 MiB or 8192 lines, and ends with its
// day; if the clock is set back, the process continues in the latest day.
//
// # Detection of alterations
//
// With state keys a part is sealed for its repository and tag. A reader ([Log.View])
// reports a part that does not open, a gap in the numbers, a part that differs from the
// digest in the next one, and a process that has fewer records than another process or
// this one knows of: each is an [Alteration], counted once. A user that may write to the
// repository can remove records unnoticed before another process has read them, or remove
// everything: only a log that is sent elsewhere is proof.
//
// Parts older than 90 days are not read, and are deleted a day later if the registry
// deletes tags. The newest 16 MiB of lines are held in memory; [Log.Each] reads the rest
// again.
//
// # Alternatives considered
//
// One tag for all processes was rejected: two writers would overwrite each other. One tag
// per record: a registry lists tags, and a page would read thousands. A signature instead
// of the chain: a holder of the signing key can sign a shorter list too.
package auditlog
