// SPDX-License-Identifier: Apache-2.0

// Package depot fills a registry: it publishes, mirrors, withdraws and reads one
// version of a module or provider at a time. Package supply keeps a declared set
// of them in step with its upstreams.
//
// # Publishing
//
// Everything is checked before anything is pushed. Then come blobs, manifests
// and the index by digest, and the version tag last: a version that can be seen
// is complete. Every step may be repeated, so a publish that was cut is finished
// by running it again, and nothing large that the registry has is sent twice. The
// manifest of a module that no gate has to see comes with its tag, for which the
// registry needs the blobs; 13 requests are what a small one costs.
//
// # Immutability
//
// A version tag is written once, and other content under it is a [ConflictError].
// Registries offer no conditional write of a tag: they ignore If-None-Match on a
// manifest. Looking before and after does not do: of two publishers at the same moment
// the later one overwrites, and both see their own. So a publisher bids first. It pushes
// a manifest that says nothing under a tag of its own, which names the version and the
// digest to publish, lists the tags, looks at the version once more, writes it, and
// removes its bid. It writes only if the list shows its bid and no live one for another
// digest. That is two requests more than to look before and after.
//
// Why two with other digests cannot write: let both have passed. If a list shows each
// push that finished before it began, then the later of the two lists began after both
// bids were there, and did not show the other one: that had been removed, so its version
// was there before, and the look that follows the list shows it. If a list is an
// old snapshot of one order of changes, it contains its reader's bid, and the longer of
// the two contains both bids, or the version before the bid went. No clock and no DELETE
// is part of the argument. A bid stays if it is not known whether the version was
// written, as when its publisher dies: the same content goes on from there, at once, and
// other content is refused, by a [RivalError], until the version is there or somebody
// removes the tag. The zips of a provider with another signature are the same content:
// what was begun is then finished.
//
// Of several who see each other the one with the smallest digest waits some seconds for
// the others, which withdraw. Where nothing can be deleted they say so under one more tag;
// the bid of who won stays there and means nothing any more. A registry whose list
// does not show a finished push within some seconds is written to as if there were
// no rival, with a warning, and what was written is read back.
//
// "The same content" of a module is an equal digest of the uncompressed tar, of a
// provider an equal set of zips. Compressed bytes may change with the
// compressor.
//
// # Gates
//
// A version is pushed by digest first. Then a [Gate] is asked, which sees the
// artifact as it is in the registry. A version that the gate keeps back gets a
// candidate tag instead of its version tag, so that no client sees it and no
// garbage collection takes it; the error is a [HeldError]. [Depot.Approve] gives a
// candidate its version tag. What gates ask for is said by their users, package
// supply above all.
//
// # Verification
//
// A mirrored provider is stored as its origin publishes it. SHA256SUMS and its
// signature are verified before the first push, with the keys that the origin
// names or, stricter, with keys of the user's; each zip is hashed, compared with
// all that was announced of it, and opened as the clients would, before it is
// sent. [Refused] distinguishes content that was not accepted from content that could not
// be read.
//
// [Depot.Verify] checks a version that is there, and [Depot.Pull] reads one that
// fulfils a policy; what the checks are is said in package trust. [Depot.Examine]
// looks for what makes clients fail.
//
// # Retention
//
// [PruneVersions] yanks first and removes the tag then: whoever still has the
// version in a lock file reads why. Nothing is removed that nobody names.
//
// The yank is also the memory of the number: as long as it counts, nothing is
// published under that number again ([Listing.Taken]), since a lock file may have
// its hashes. It names the manifest that lost its tag, so that an unyank can put
// the tag back until the registry's garbage collection has taken the manifest.
// Who removes a tag by other means leaves no such memory.
package depot
