// SPDX-License-Identifier: Apache-2.0

// Package trust determines who signed a version of a module or provider, and
// whether that fulfils a policy.
//
// [Verify] checks a [Subject]: the manifest that has, or is about to get, the tag of a version. It
// may be called before the version is visible, so that the checked manifest is the one that becomes
// visible. Digest, manifests, hashes, SHA256SUMS with its OpenPGP signature, cosign signatures, the
// newest scan report and the status are checked in this order; the checks stop at the first
// failure, an [ErrUntrusted]. An error of the registry is not an error of the artifact. With Deep
// every blob is read, and the hashes and sizes in the manifests are recomputed.
//
// # Trusted keys
//
// A [Policy] holds the trusted keys, which come only from the caller: a key stored beside an
// artifact proves nothing about it, and such a check results in "consistent", not in "trusted".
// Every caller that is about to use a version calls [Fulfils]; without a policy it requires
// nothing. A sigstore bundle counts for the item that the manifest names, since the bundle names
// only a digest.
//
// # Signing
//
// [SignCosign] and [SignProvider] only add to a version and never change
// published content: the first adds a signature manifest, the second a status
// event with a new signature over SHA256SUMS and its keys. Signing again with
// the same key changes nothing. Private keys never leave the signing process.
package trust
