// SPDX-License-Identifier: Apache-2.0

// Package auditlog keeps what the processes of a server changed, where all of them can
// read it, and what this process decided, in memory.
//
// [Log] is a handler of the logger that records go to. A decision is kept among the
// last 5,000 of this process. A change is a line of a part: a tag of the queue
// repository that belongs to this process and day. It is written at most once a
// minute, all of it each time, so that no two writers meet and a crash loses the last
// minute. No request waits for it. While the registry is away lines wait in memory; when
// there is no more room they are dropped, and the next line says how many. [Writer] is for
// the log that is a file: requests do not wait for it either, and nothing is dropped.
//
// # What a part says
//
// Its first line is about itself, the others are records:
//
//	{"format":1,"tag":"audit-20261122-…-0002","first":51,"before":{"tag":"…-0001","digest":"sha256:…"},"others":[{"tag":"…","n":7}]}
//	{"n":51,"time":"2026-11-22T12:00:00Z","action":"publish",…}
//
// The lines of a process are numbered from 1 on, over days and parts. The digest is that
// of all lines of the part before. Others are the newest lines of other processes when
// the part began. A part is full at 1 MiB or 8192 lines, and ends with its day; a clock
// that is set back goes on in the day that it had reached.
//
// # What shows that it was altered
//
// With state keys a part is sealed for its repository and tag. A reader ([Log.View])
// reports what does not open, a gap in the numbers, a part that the next one knows
// otherwise, and a process that has fewer lines than somebody knows, this process
// included: each is an [Alteration], counted once. What nobody knew of yet can be taken
// away unseen, as can everything, by who may write to the repository: the log that is
// sent elsewhere is the record.
//
// Parts of more than 90 days are not read, and deleted a day later where the registry
// deletes tags. The newest 16 MiB of lines are held in memory; the rest is read again
// by who wants all of it ([Log.Each]).
//
// # Alternatives considered
//
// One tag for all processes: two writers would overwrite each other. One tag for each
// record: a registry lists tags, and a page would read thousands. A signature instead of
// the chain: who can sign can sign a shorter list too.
package auditlog
