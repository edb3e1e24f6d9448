// SPDX-License-Identifier: Apache-2.0

// Package depot writes to a registry: it publishes, mirrors, withdraws and
// reads one version of a module or provider at a time. Package supply keeps a
// declared set of modules and providers in step with their upstreams.
//
// # Publishing
//
// Everything is checked before anything is pushed. Then blobs, manifests and the index are pushed
// by digest, and the version tag last: a visible version is complete. Every step can be repeated,
// so running an interrupted publication again finishes it, and no large blob that the registry has
// is sent twice. The manifest of a module without a check is pushed together with its tag; the
// registry needs the blobs before. A small module costs 13 requests.
//
// # Immutability
//
// A version tag is written once, and other content under it is a [ConflictError]. Registries offer
// no conditional write of a tag: they ignore If-None-Match on a manifest. Checking the tag before
// and after is not sufficient: of two concurrent publishers the later one overwrites, and both see
// their own manifest. So a publisher bids first. It pushes an empty manifest under a bid tag, which
// names the version and the digest to publish, lists the tags, checks the version once more, writes
// it, and removes its bid. It writes only if the list shows its bid and no active one for another
// digest. This takes two requests more than checking before and after.
//
// Why two publishers with different digests cannot both write: assume that both have passed. If a
// list shows each push that finished before the list began, then the later of the two lists began
// after both bids existed, but did not show the other bid: it had been removed, so its version
// existed before, and the check after the list sees it. If a list is an old snapshot of one order
// of changes, it contains its reader's bid, and the longer of the two contains both bids, or the
// version before its bid was removed. The argument needs no DELETE. A bid stays if it is unknown
// whether the version was written, for example because its publisher crashed. Then the same content
// can be published at once, and other content is refused with a [RivalError] until the version
// exists or the bid ends by a clock (contest.go). A publisher of the same files, from another
// commit or signed at another time, finishes the publication that was begun: its manifest is in the
// registry, or in the bid. Only if several were begun with the same files may two manifests of them
// be written.
//
// Of several publishers that see each other, the one with the smallest digest waits some seconds
// for the others, which withdraw. If nothing can be deleted, each marks its bid as ended with one
// more tag; the bid of the winner stays and has no effect. If the list of a registry does not show
// a finished push within some seconds, the version is written as if there were no rival, with a
// warning, and read back.
//
// Platforms are added to a version of a provider in the same way: publishers that
// extend the same index bid against each other, and who loses extends what the
// winner wrote. Nobody else can finish what they began. The index that was replaced keeps a tag. Signatures and reports
// that name its digest stay with it, and are not taken for those of the new one,
// which has content that nobody signed.
//
// "The same content" of a module is an equal digest of the uncompressed tar, of a provider an equal
// set of zips. Compressed bytes may differ between compressors.
//
// # Checks before publication
//
// A version is pushed by digest first. Then a [Check] is asked, which sees the artifact in the
// registry. If the check holds it back, the version gets a candidate tag instead of its version
// tag, so that clients do not see it and garbage collection does not remove it; the error is a
// [HeldError]. [Depot.Approve] gives a candidate its version tag. The users of checks, mainly
// package supply, describe their criteria.
//
// # Verification
//
// A mirrored provider is stored as its origin publishes it. SHA256SUMS and its signature are
// verified before the first push, with the keys that the origin names or, stricter, with keys of
// the user. Each zip is hashed, compared with all announced hashes, and opened as the clients
// would, before it is sent. [Refused] distinguishes content that was not accepted from content that
// could not be read.
//
// [Depot.Verify] checks an existing version, and [Depot.Pull] reads one that fulfils a policy;
// package trust describes the checks. [Depot.Examine] looks for problems that make clients fail.
//
// # Parts of a version
//
// A few registries remove manifests that only an index names, because these have no tag
// (docs/operate/registries.md). Where that is known, each has a tag of its own
// ([oci.Options].TagParts): the push by tag replaces the push by digest, and costs no request. It
// is not done everywhere, since a provider of 15 platforms has 18 tags instead of 2: each list of
// versions gets that many times longer, in pages of 100 tags at some registries. [PruneVersions]
// and a withdrawal with DeleteTag remove the tags of parts that no other version names (partTags).
//
// Wherever the tags are missing, a version is called existing only after a look at each part, and
// what is missing is pushed again from the bytes that are offered (restore.go).
//
// The publish time of a version and its status have separate tags: a time is read
// from the name of its tag, without a request, and each change of status adds an
// event. A retention rule leaves both out by the prefix.
//
// # Retention
//
// [PruneVersions] yanks a version before it removes the tag, so that a user who
// still has it in a lock file is told why. Only the given versions are removed.
//
// The yank also reserves the number: while it is in effect, nothing is published under that number
// again ([Listing.Taken]), since a lock file may have its hashes. It names the manifest that lost
// its tag, and what the manifest contained. An unyank restores the tag until the registry's garbage
// collection has removed the manifest; after that a mirror may bring the same content back, and
// [PutVersion] refuses other content for ever. Removing a tag by other means leaves no such record.
package depot
