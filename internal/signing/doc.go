// SPDX-License-Identifier: Apache-2.0

// Package signing makes and checks SHA256SUMS files, the OpenPGP signatures over
// them, and the signatures that cosign and Flux check.
//
// OpenPGP is the only signature that OpenTofu and Terraform check themselves, so
// what is made here is what both accept: binary, detached, version 4, SHA-256.
// Keys are RSA-4096 unless the caller asks for Ed25519, which older Terraform
// releases refuse. A private key exists in a file of its owner only; servers and
// registries hold public keys.
// [KeyDir] is the folder where a user keeps keys: files are made and never
// replaced, except that revoking a key rewrites both its halves.
//
// A signature file may hold the packets of several keys; one that verifies with a
// usable key is enough, since the clients see it so. [Verify] names why the others
// did not count: [ErrBadSignature], [ErrRevokedKey], [ErrExpiredKey], [ErrEarlyKey] or
// [ErrUnknownKey], in this order of importance.
//
// # Releases of providers
//
// The package knows what a release of a provider consists of: how its files are
// named, what the clients demand of a zip, what SHA256SUMS and the registry manifest
// say. It is the form that GoReleaser leaves and that OpenTofu and Terraform install.
//
// A zip comes from strangers: [HashPackage] bounds the number of its files and what they
// expand to, and refuses paths and file types that could reach outside of the folder
// of the plugin.
package signing
