// SPDX-License-Identifier: Apache-2.0

// Package evidence defines what is attached to a version: status events, reports and signatures.
//
// A status event (status.go) is a manifest under a tag of its own, in the simple form of package
// artifact. It deprecates or yanks a version, or replaces the signatures of a provider's checksums.
// Reports (report.go) and signatures are referrers of their subject. Signatures have the formats of
// cosign (cosign.go), with layers under a tag, and Sigstore bundles (bundle.go). Any writer may
// have stored the data, so its size is bounded, and it is not trusted before package signing has
// verified it.
package evidence
