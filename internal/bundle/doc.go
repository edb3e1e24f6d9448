// SPDX-License-Identifier: Apache-2.0

// Package bundle carries modules and providers to a registry that cannot reach
// the one they are in.
//
// # The file
//
// A bundle is one tar of an OCI image layout: oci-layout, index.json, then the
// blobs in the order of their digests, all with fixed times and modes. Any OCI
// tool can read it. Sizes and offsets follow from index.json and the list of
// blobs alone, so the same content is the same file, and a file that was cut is
// continued after its last whole blob. An entry of index.json is named
// REPOSITORY:TAG, or REPOSITORY@DIGEST for a referrer, which has no tag; the
// repository is without the prefix of the registry it came from. A bundle that
// builds on an earlier one leaves out what that one has and lists the digests in
// an annotation of index.json.
//
// # Trust
//
// Whoever carries the file may have changed it. [Open] believes nothing but the
// places of the blobs; each is hashed before it is used. A detached OpenPGP
// signature over index.json, FILE.sig, vouches for everything that loading
// reaches, since the index has the digest of all of it.
//
// [Load] writes versions of modules and providers below the prefix, their
// signatures, their status and what refers to them, and container images where the
// caller wants them; an entry for anything else fails the whole file before the first
// request. Unless somebody vouches for the
// bundle it speaks only of versions that are new with it: otherwise a file could
// yank what the registry has, or call it clean. A version tag is never moved. The
// policy, if there is one, looks at the bytes that get the tag.
//
// # Interruption
//
// Loading pushes blobs, then manifests by digest from the bottom up, then what
// belongs to versions, and the version tags last. It can stop at any time; the
// next run does what is missing.
//
// # Limits
//
// index.json has at most 64 MiB, a file at most 2^20 blobs, indexes nest at most
// eight levels, and a file asks for at most 2^21 blobs in repositories. Nothing
// that grows with the size of a blob is kept in memory.
//
// Reference: OCI image layout specification.
package bundle
