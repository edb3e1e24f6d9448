// SPDX-License-Identifier: Apache-2.0

// Package supply keeps a registry in step with its upstreams: it reads what the
// registry shall hold, plans what is missing, and has package depot publish it.
//
// # Sync
//
// A [Set] is a depot file, or what was written on a command line: entries for
// modules and providers, each with an origin, a constraint and policies. A
// [Syncer] compares it with the registry. Plan asks each origin for its versions
// and each repository for its tags and gives one [Step] per version, without
// changing anything; Apply carries the steps out, several at a time. A broken
// entry becomes a step that failed and does not stop the others. Repeated, a run
// does only what is missing.
//
// What was published, from which commit, and what waits is in the [Record], one
// document in the registry, so that any replica can run the depot. It is written
// once at the end of a run, also of one that was stopped. Two runs at a time would
// overwrite each other's record: who starts them sees to it that there is one.
//
// Who runs entries one by one gives each a record of its own, an [OwnRecord]: one
// document would be rewritten by each of thousands. Such a record says whose the entry
// is, and begins with what the common one knows. Both kinds of runs publish the same
// bytes, and adopt what the other published.
//
// What is published never changes. Where the origin or the registry has other
// content than the record says, the step is drift: reported each time, repaired by
// nobody but a person. A run that knows when the one before was examines the newest
// version and a part of the others, each within a day ([examineWithin]).
//
// # What is kept back
//
// The gate of a run, a [depot.Gate], runs the scanner of the entry's scan policy
// over the artifact as it is in the registry, and looks at what signed it and at
// the versions that are there, as the approval policy says. What it keeps back is
// in the record as waiting or blocked. A later run asks again when the rules may
// have come to hold; [depot.Depot.Approve] is the answer of a person. A scan that
// finds something in a version that is published already is noted in the record:
// whether it is still served is the front-end's decision.
//
// # Retention
//
// An entry may keep only its newest versions, of which those count that can be
// installed ([depot.Listing.Prunable]). Pinned ones and those that Used names stay,
// and a version that retention would remove at once is not taken. What goes waits
// for what takes its place: it is decided again after the other steps. Without keep
// nothing is ever removed. A version that was removed is not taken again.
//
// # Origins
//
// [Origins] are the ways to the outside for one credential. A module comes from
// git, from a forge's archives, a module registry or an OCI repository; for a
// provider [OpenSource] reads what a user names. A git tag that moves while a run
// reads it is an error, and so is a path that leaves the tree.
//
// # Tenants
//
// [Tenants] are the ways to origins that a tenant of a cluster named: his word, who
// runs okara is not his deputy. They lead to no file and no address of the own
// network, not by a redirect either, send no other credential than the tenant's, and
// that only to hosts that it is for. What they bring is bounded.
package supply
