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
// sent. [Refused] tells content that was not accepted from content that could not
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
