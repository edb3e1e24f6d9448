// SPDX-License-Identifier: Apache-2.0

// Package lifecycle implements the life of what users launch from templates, as a pure
// state machine: no clock, no randomness, no input or output.
//
// # Model
//
// A template, of package template, describes what may be launched: a module, its parameters, a
// lifetime and the owner. A [Record] is one launch, an instance, with the [Run] that is pending or
// running and those that ended. A [Pool] holds the state of a template whose instances are made in
// advance. All of it is one [Document]. [Machine.Step] makes the next document from it and a
// [Command]: a request of a caller or an event of the server, with the time and the seed for IDs
// and nonces. Step also returns effects, which are carried out once the document is stored: an
// attempt started or cancelled, a notice sent, the rest of a record removed.
//
// A given document is never changed. Step copies the maps and records that it changes,
// so readers keep a consistent copy and a failed commit leaves nothing behind. A
// command that changes nothing returns the same document, which need not be stored.
//
// # Rows
//
// This table is the life of an instance: row, phase, event, next phase. Comments cite its rows.
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
//	24 as 21, offered by its owner | take; decline, withdraw, a week passes | same, with the new owner; same
//	25 ready | stop, start, or its time by the schedule; updating: kept until it is ready | updating
//
// The function phaseAdmits says what callers may do in which phase. Deadlines are computed
// in deadlines.go, and [Document.PendingIDs] exports them. What the end of an attempt
// does is in ended.go. The end of an instance is checked before anything else: a caller
// that comes after the end is refused even if the end was not acted on yet, and an end
// needs neither template nor module. Any other pair of phase and event is refused with
// [ErrPhase] if it is a caller's, and ignored if it is the server's.
//
// An instance has at most one run. A run that has to come after a running attempt is kept in Then;
// the attempt is asked to end, and the other run follows when it has ended or is lost. Only a drift
// comparison, which changes nothing, is dropped without waiting if no run follows it.
//
// A plan that needs approval is made by an attempt of kind plan, and applied by the
// next attempt of the same run: it names the plan, and in Planned the attempt that made
// it. Any failure after an approval leads to a new plan.
//
// Destroying an instance uses what was applied last, even if that failed: the state may
// need its providers.
//
// # Workspaces
//
// The runs of a workspace of tfe.v2 belong to a [Record] too, of a template that cannot be launched
// (tfe/ORGANIZATION). Such a record has no owner, end or pool, and has separate events
// (workspace.go); those of instances do not find it. Several of its runs can be open at a time, and
// one is current: a confirmed plan, else the oldest. While a plan waits for confirmation, only
// speculative plans and plans saved for later proceed. No run is retried automatically.
//
// # Guarantees
//
//   - An attempt is in the document before its effect is returned. A result counts
//     only if it repeats ID, kind, number, attempt and nonce.
//   - An instance becomes destroyed only after a destroy run left an empty state, or
//     if no apply was ever begun.
//   - A pool member is claimed once, and claiming runs nothing.
//   - No step exceeds a limit, unless an admin forces it.
//   - A request repeated within an hour gets the same answer; one that made an
//     instance, for as long as its record exists.
//   - What a new leader has to repeat is in the document: [Machine.Outstanding].
//
// [Check] looks for documents that no step can make. The tests call it after every
// step, and readers of a document call it.
//
// # Left to the caller
//
// Rights are left to the caller, except those that need the record: approval by another person,
// what only an admin may do, to whom an instance may be offered and who may take it. So are the
// validation of parameter values, the rate of requests, when to send [ExpireCheck], [Fill],
// [UpdateCheck] and [Schedule] (a machine without a clock waits for nothing), and whether the clock
// can be trusted: [ClockHeld] holds back all that takes something away.
//
// When a template changes, pool members of the old revision are still claimed until
// their successors exist; those of the newest go first. If the template's limit leaves
// no room for a successor, one old member is destroyed at a time.
//
// # Rejected alternatives
//
// A machine for each instance: limits and claims concern many instances, and became two steps with
// a gap between them. Timers beside the document: they were lost with their process; deadlines are
// computed from the record instead. An event log from which the document is built: it has to be
// truncated some day, and the truncated part has to be trusted; the versions of the ledger are that
// log. Runs as separate records: each end of a run changed two records that had to agree.
package lifecycle
