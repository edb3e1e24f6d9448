// SPDX-License-Identifier: Apache-2.0

// Package bundle transfers modules and providers to a registry that cannot
// reach the registry they are in.
//
// # The file
//
// A bundle is one tar of an OCI image layout: oci-layout, index.json, then the blobs in the order
// of their digests, all with fixed times and modes. Any OCI tool can read it. Sizes and offsets
// follow from index.json and the list of blobs alone, so the same content gives the same file, and
// an incomplete file is continued after its last complete blob. An entry of index.json is named
// REPOSITORY:TAG, or REPOSITORY@DIGEST for a referrer, which has no tag; the repository is without
// the prefix of its original registry. A bundle that builds on an earlier one omits the blobs of
// that one and lists their digests in an annotation of index.json.
//
// # Trust
//
// The carrier of the file may have changed it. [Open] trusts only the positions of the blobs; each
// blob is hashed before it is used. A detached OpenPGP signature over index.json, FILE.sig,
// authenticates everything that loading reaches, since the index has the digest of all of it.
//
// [Load] writes versions of modules and providers below the prefix, their signatures, status and
// referrers, and container images if the caller requests them; an entry for anything else fails the
// whole file before the first request. A bundle that is not authenticated affects only versions
// that are new with it: otherwise a file could yank existing versions of the registry, or declare
// them clean. A version tag is never moved. The policy, if there is one, checks the bytes that get
// the tag.
//
// # Interruption
//
// Loading pushes blobs, then manifests by digest from the bottom up, then the
// signatures, status and referrers of versions, and the version tags last. It
// can stop at any time; the next run does what is missing.
//
// # Limits
//
// index.json has at most 64 MiB, a file at most 2^20 blobs, indexes nest at
// most eight levels, and a file requests at most 2^21 blobs in repositories.
// Memory use does not grow with the size of blobs.
//
// # What oras-go lacks
//
// Manifests are checked with its content package. Of the rest, in version 2.7.0: content/oci writes
// a directory, so that a bundle would be on the disk twice. Its reader of a tar accepts links,
// other files and names that occur twice, has no bound, tells neither positions nor the list of
// blobs, and opens the file again for each blob. CopyGraph copies one root at a time, a manifest as
// soon as its blobs are there, keeps the manifests of a root in memory and does not bound their
// depth.
//
// Reference: OCI image layout specification.
package bundle
