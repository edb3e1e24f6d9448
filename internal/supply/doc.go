// SPDX-License-Identifier: Apache-2.0

// Package supply keeps a registry in step with its upstreams: it reads the declared content of the
// registry, plans what is missing, and publishes it with package depot.
//
// # Sync
//
// A [Set] is a depot file or its equivalent on a command line: entries for modules and providers,
// each with an origin, a constraint and policies. A [Syncer] compares it with the registry. Plan
// asks each origin for its versions and each repository for its tags and returns one [Step] per
// version, without changing anything; Apply carries the steps out, several concurrently. A broken
// entry becomes a failed step and does not stop the others. A repeated run does only what is
// missing.
//
// The [Record] contains the published versions, their commits, and the waiting versions. It is one
// document in the registry, so that any replica can run the depot. It is written once at the end of
// a run, even of one that was stopped. Two concurrent runs would overwrite each other's record: the
// caller must prevent them.
//
// A caller that runs entries individually gives each a separate record, an [OwnRecord], because
// thousands of entries would otherwise rewrite one document. Such a record names the owner of the
// entry, and starts with the content of the common record. Both kinds of runs publish the same
// bytes, and adopt versions that the other published.
//
// Published content never changes. If the content of the origin or the registry differs from the
// record, the step is drift: it is reported each time and only a person can repair it. A run that
// knows when the previous one began examines the newest version and some of the others, each within
// a day ([examineWithin]).
//
// # Versions that are held back
//
// The check of a run, a [depot.Check], runs the scanner of the entry's scan policy over the
// artifact in the registry, and checks its signers and the existing versions against the approval
// policy. A version that it holds back is recorded as waiting or blocked. A later run decides again
// when the rules may be fulfilled; [depot.Depot.Approve] is the approval by a person. If a scan
// finds something in a published version, it is noted in the record: the front-end decides whether
// the version is still served.
//
// # Retention
//
// An entry may keep only its newest versions, counting those that can be installed
// ([depot.Listing.Prunable]). Pinned versions and those that Used reports are kept, and a version
// that retention would remove at once is not fetched. A removal waits for the replacing version: it
// is decided again after the other steps. Without keep nothing is ever removed. A removed version
// is not fetched again.
//
// # Origins
//
// [Origins] provides access to origins with one credential. A module comes from
// git, from a forge's archives, a module registry or an OCI repository; for a
// provider [OpenSource] opens the source that a user names. It is an error if a
// git tag moves while a run reads it, or if a path leaves the tree.
//
// # Tenants
//
// [Tenants] provides access to origins that a tenant of a cluster named. Tenants are not trusted,
// and okara must not use the administrator's rights on their behalf. Their origins cannot be files
// or addresses of the internal network, not even by a redirect. Only the tenant's own credential is
// sent, and only to the hosts that it is for. The size of the content is bounded.
package supply
