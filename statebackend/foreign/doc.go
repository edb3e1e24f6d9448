// SPDX-License-Identifier: Apache-2.0

// Package foreign reads states that other tools left, and writes them as the
// versions of a workspace.
//
// A source is a state file, a directory of them ([Files]), or a repository
// ([Repository]) in a layout that [ParseState] knows: that of the OCI
// backend proposed for OpenTofu and its fork ghoten, that of
// terraform-provider-oras, and okara's own. A source is read and never changed.
//
// # Order
//
// Files are ordered by serial, those of a repository by the number in the tag with
// the current state last, unless that is a copy of the newest version. Every
// version is read and checked before anything is written: it must be a whole state,
// and each must continue the one before, with the same lineage and no lower serial.
// States are large and their versions many, so a [Version] keeps only lineage and
// serial; its Load reads the bytes again when they are written.
//
// # Continuing
//
// [Import] writes under a lock that the caller holds. A workspace without a state
// takes all versions. One whose current state is, byte for byte, a version of the
// source takes those after it, so that an import that was cut goes on, and one that
// is run again after the source grew adds what is new. Any other state is an
// [OtherStateError]: okara does not guess which of two histories is right.
package foreign
