// SPDX-License-Identifier: Apache-2.0

// Package lifecycle is the life of what users launch from templates, as a pure
// machine: no clock, no randomness, no input or output.
//
// # Model
//
// A template, of package template, says what may be launched: a module, its
// parameters, a lifetime, whose the result is. A [Record] is one launch, an instance, with the [Run] that
// is pending or runs and those that ended. A [Pool] is what is remembered of a template
// whose instances are made before anybody asks. All of it is one [Document], and
// [Machine.Step] makes the next one of it and a [Command]: a request of a caller or
// an event of the server, with the time and the seed that ids and nonces are made
// of. Step returns effects too, what is to be done once the document is kept: an
// attempt started or cancelled, a notice sent, the rest of a record removed.
//
// A document that was given is never changed. Step copies the maps and records
// that it touches, so that a reader keeps what he has, and a commit that fails
// leaves nothing behind. A command that changes nothing returns the same document,
// which nobody need keep.
//
// # Rows
//
// The life of an instance is this table: row, phase, event, next phase. Comments name
// its rows.
//
//	1  none | create | provisioning; requested where a request needs approval
//	2  requested | approve; reject, destroy, cancel, a week passes | provisioning; rejected
//	3  provisioning, updating | plan ready that needs approval | planned
//	4  planned | approve that plan; reject, cancel, a day passes | the phase before; ready if it was, else destroying
//	5  provisioning | run succeeded | ready; available in a pool
//	6  provisioning, updating | run failed or lost, attempts left | same, next attempt later
//	7  provisioning, updating | run failed for good, or cancelled | failed
//	8  available | claim | ready, with an owner
//	9  available | drain: old revision, too old, pool smaller | destroying
//	10 ready, failed | update | updating
//	11 updating | run succeeded | ready
//	12 as 13 | extend | same, later end
//	13 live but requested, available, destroying, destroy_failed | expire, not protected | destroying; orphaned if its template says so
//	14 as 13 | expire, protected | same, a notice each day
//	15 live but destroying | destroy, not protected | destroying; destroyed if nothing was applied
//	16 failed | retry | the phase before it failed
//	17 destroying | run succeeded, state is empty | destroyed
//	18 destroying | run failed or lost, or resources left | same for five attempts, then destroy_failed
//	19 destroy_failed | retry; a day passes; update by an admin | destroying
//	20 destroy_failed, failed, ready | orphan by an admin | orphaned
//	21 live but requested, planned, available, destroying | protect, unprotect, rename, transfer | same
//	22 destroyed, orphaned, rejected | a week passes | removed
//	23 ready | comparison with the state due, and its end | same, drift noted
//	24 as 21, offered by its owner | take; decline, withdraw, a week passes | same, of who took it; same
//	25 ready | stop, start, or its time by the schedule; updating: kept until it is ready | updating
//
// What callers may do in which
// phase is one function, admits; what time does is another, [Document.PendingIDs] being
// its face to the outside; what the end of an attempt does is in ended.go. The
// end of an instance is looked at before anything else of it: a caller who comes
// later than the end is refused even if nobody has acted on it yet, and an end
// needs neither template nor module. Each other pair of phase and event is refused
// with [ErrPhase] if it is a caller's, and ignored if it is the server's own.
//
// One run at most belongs to an instance. What has to come after an attempt that
// runs is kept beside it, in Then; the attempt is asked to end, and the other run
// follows when it has ended or is lost. Only a comparison with the state, which
// changes nothing, is dropped without waiting where no run follows it.
//
// A plan that somebody approves is made by an attempt of kind plan, and applied
// by the next attempt of the same run: it names the plan, and in Planned the
// attempt that made it. Whatever goes wrong after an approval leads to a new plan.
//
// What destroys an instance runs what was applied last, even if that failed: the
// state may need its providers.
//
// # Workspaces
//
// The runs of a workspace of tfe.v2 are those of a [Record] too, of a template that
// nobody launches (tfe/ORGANIZATION). Such a record has no owner, end or pool, and events
// of its own (workspace.go); those of instances do not find it. Several of its runs
// are open at a time, and one has its turn: a plan that was confirmed, else the oldest.
// While a plan waits for somebody, only plans that nobody applies, or that are kept
// for later, go on. Nothing is tried again by itself.
//
// # What is promised
//
//   - An attempt is in the document before its effect is returned. A result counts
//     only if it repeats id, kind, number, attempt and nonce.
//   - An instance is called destroyed only after a run that destroys left an empty
//     state, or if no apply was ever begun.
//   - A member of a pool is given away once, and that runs nothing.
//   - No step goes beyond a limit, but for an admin who says so.
//   - A request that comes again within an hour is answered as it was; the one that
//     made an instance, for as long as there is its record.
//   - What a new leader has to repeat is in the document: [Machine.Outstanding].
//
// [Check] looks for documents that no step makes. It is asked after every step of
// the tests, and by whoever reads a document.
//
// # What is left to others
//
// Rights, but for those that need the record: an approval by somebody else, what
// only an admin may do, whom an instance may be given to and who may take it. The
// values of parameters, which come checked. The rate of requests. When to send [ExpireCheck],
// [Fill], [UpdateCheck] and [Schedule]: a machine without a clock waits for nothing. And
// whether the clock can be believed: [ClockHeld] holds back all that takes
// something away.
//
// Where a template changes, members of its pool of the old revision are given
// away until their successors are there; those of the newest go first. If the
// template's limit leaves no room for a successor, one old member goes at a time.
//
// # Alternatives that lost
//
// A machine for each instance: limits and claims are about many instances, and
// became two steps with a gap between them. Timers kept beside the document: they
// were lost with their process; what is pending is computed from the record instead. A
// log of events from which the document is made: it has to be cut some day, and
// what was cut has to be believed; the versions of the ledger are that log. Runs as
// records of their own: each end of a run was a change of two records that had to
// agree.
package lifecycle
