// SPDX-License-Identifier: Apache-2.0

// Package evidence says what is attached to a version that package artifact has: events
// of its status, reports, and signatures.
//
// A status event (status.go) is a manifest under a tag of its own, of the plain shape of
// package artifact: deprecate, yank, and new signatures of a provider's sums. Reports
// (report.go) and signatures hang on what they are about, as referrers. Signatures are
// those of cosign (cosign.go), in its older form of layers under a tag and as bundles of
// Sigstore (bundle.go). What is read is anybody's: it is bounded, and believed by nobody
// before package signing has checked it.
package evidence
