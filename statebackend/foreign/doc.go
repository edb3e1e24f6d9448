// SPDX-License-Identifier: Apache-2.0

// Package foreign reads states that other tools wrote, and imports them as versions of a workspace.
//
// A source is a state file, a directory of them ([Files]), or a repository ([Repository]) in a
// layout that [ParseState] knows: of the OCI backend proposed for OpenTofu and its fork ghoten, of
// terraform-provider-oras, or okara's. It is only read.
//
// # Order
//
// Files are ordered by serial; states of a repository by the number in the tag, with the current
// state last, unless that is a copy of the newest version. Every version is read and checked before
// any is written: it must be a complete state, and must continue the one before, with the same
// lineage and no lower serial. A [Version] keeps only these two; its Load reads the bytes again.
//
// # Continuing
//
// [Import] writes under a lock that the caller holds. A workspace without a state takes all
// versions; one whose state equals a version of the source, byte for byte, those after it. So an
// interrupted import continues, and a repeated one adds what is new. Any other state is an
// [OtherStateError]: okara does not guess which of two histories is right.
package foreign
