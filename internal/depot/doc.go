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
package depot
