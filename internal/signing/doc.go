// SPDX-License-Identifier: Apache-2.0

// Package signing creates and verifies SHA256SUMS files, the OpenPGP signatures
// over them, and the signatures that cosign and Flux verify.
//
// OpenPGP is the only kind of signature that OpenTofu and Terraform verify themselves, so this
// package creates signatures that both accept: binary, detached, version 4, SHA-256. Keys are
// RSA-4096 unless the caller requests Ed25519, which older Terraform releases refuse. A private key
// is stored only in a file that only its owner can read; servers and registries hold public keys.
// [KeyDir] is the directory where a user stores keys: files are created and never replaced, except
// that revoking a key rewrites both its halves.
//
// A signature file may contain the packets of several keys; one that verifies with a usable key is
// sufficient, as for the clients. [Verify] reports why the others do not count: [ErrBadSignature],
// [ErrRevokedKey], [ErrExpiredKey], [ErrEarlyKey] or [ErrUnknownKey], in this order of importance.
//
// # Releases of providers
//
// The package defines the files of a provider release: their names, the clients' requirements for a
// zip, the content of SHA256SUMS and the registry manifest. It is the form that GoReleaser creates
// and that OpenTofu and Terraform install.
//
// A zip is untrusted: [HashPackage] bounds the number of its files and their uncompressed size, and
// refuses paths and file types that could reach outside of the directory of the plugin.
package signing
