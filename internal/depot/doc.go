// SPDX-License-Identifier: Apache-2.0

// Package depot fills a registry: it publishes modules and providers, and keeps
// a declared set of them in step with its upstreams.
//
// # Publishing
//
// Everything is checked before anything is pushed. Then come blobs, manifests
// and the index by digest, and the version tag last: a version that can be seen
// is complete. Every step may be repeated, so a publish that was cut is finished
// by running it again, and what the registry has is not sent twice.
//
// # Immutability
//
// A version tag is written once. The tag is looked up, written if it is absent
// and read back; other content under it is a [ConflictError]. Registries offer no
// conditional write of a tag: they ignore If-None-Match on a manifest. So two
// publishers of one version at the same moment can both write; the one whose
// bytes lost learns it when it reads back, unless the other writes after that. In
// one process publishing is serialised per repository, and a registry rule for
// immutable tags closes the window.
//
// "The same content" of a module is an equal digest of the uncompressed tar, of a
// provider an equal set of zips. Compressed bytes may change with the
// compressor.
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
// What is published never changes. Where the origin or the registry has other
// content than the record says, the step is drift: reported each time, repaired by
// nobody but a person.
//
// # Gates
//
// A version is pushed by digest first. Then a [Gate] is asked, which sees the
// artifact as it is in the registry: the scan policy runs a scanner over it, the
// approval policy looks at what signed it and at the versions that are there. A
// version that a gate keeps back gets a candidate tag instead of its version tag,
// so that no client sees it and no garbage collection takes it. A later run asks
// again when the rules may have come to hold; [Depot.Approve] is the answer of a
// person. A scan that finds something in a version that is published already is
// noted in the record: whether it is still served is the front-end's decision.
//
// # Verification
//
// A mirrored provider is stored as its origin publishes it. SHA256SUMS and its
// signature are verified before the first push, with the keys that the origin
// names or, stricter, with keys of the user's; each zip is hashed, compared with
// all that was announced of it, and opened as the clients would, before it is
// sent. [Refused] tells content that was not accepted from content that could not
// be read.
//
// [Depot.Verify] checks a version that is there. Trusted keys come from the caller
// only: a key that lies beside an artifact proves nothing about it, and such a
// check ends as "consistent", not as "trusted". Checks stop at the first failure,
// an [ErrUntrusted]; an error of the registry is not one of the artifact.
// [Depot.VerifyManifest] does the same for bytes that have no tag yet, so that
// what is checked is what becomes visible.
//
// # Retention
//
// An entry may keep only its newest versions. Pinned ones and those that Used
// names stay, and a version that retention would remove at once is not taken.
// [Depot.PruneVersions] yanks first and removes the tag then: whoever still has
// the version in a lock file reads why. Without keep nothing is ever removed.
package depot
