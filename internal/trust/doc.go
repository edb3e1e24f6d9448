// SPDX-License-Identifier: Apache-2.0

// Package trust says who vouches for a version of a module or provider, and whether
// that is enough.
//
// [Verify] checks a [Subject]: the manifest that has, or is about to get, the tag of
// a version. It need not be visible yet, so that what is checked is what becomes
// visible. Digest, manifests, hashes, SHA256SUMS with its OpenPGP signature, cosign
// signatures, the newest scan report and the status are looked at in this order;
// the checks stop at the first failure, an [ErrUntrusted]. An error of the registry
// is not one of the artifact. With Deep every blob is read, and what the manifests
// say of it computed again.
//
// # Whom to trust
//
// A [Policy] holds the trusted keys, and those come from the caller only: a key that
// lies beside an artifact proves nothing about it, and such a check ends as
// "consistent", not as "trusted". [Fulfils] is the question of everybody who is about
// to use a version; no policy demands nothing. A sigstore bundle counts
// for what the manifest says it is, since it names nothing but a digest.
//
// # Signing
//
// [SignCosign] and [SignProvider] add to what is there and change nothing that was
// published: the first adds a signature manifest, the second a status event with a
// new signature over SHA256SUMS and its keys. Signing again with one key changes
// nothing. Private keys never leave the process that signs.
package trust
