// SPDX-License-Identifier: Apache-2.0

// Package foreign reads states that other tools wrote, and imports them as the
// versions of a workspace.
//
// A source is a state file, a directory of state files ([Files]), or a repository
// ([Repository]) in a layout that [ParseState] knows: that of the OCI
// backend proposed for OpenTofu and its fork ghoten, that of
// terraform-provider-oras, or okara's. A source is only read.
//
// # Order
//
// Files are ordered by serial; states of a repository by the number in the tag, with
// the current state last, unless that is a copy of the newest version. Every version
// is read and checked before any is written: it must be a complete state, and must
// continue the one before, with the same lineage and no lower serial. States are large
// and their versions many, so a [Version] keeps only lineage and serial; its Load
// reads the bytes again when they are written.
//
// # Continuing
//
// [Import] writes under a lock that the caller holds. A workspace without a state
// takes all versions. If its current state equals, byte for byte, a version of the
// source, it takes the versions after that one. So an interrupted import continues, and
// an import that is repeated after the source grew adds the new versions. Any other
// state is an [OtherStateError]: okara does not guess which of two histories is right.
package foreign
