// SPDX-License-Identifier: Apache-2.0

// Package variables keeps variables of workspaces and sets of them in the repository of
// their organization, and tells which of them a run gets.
//
// Each variable, set and use of a set by a workspace or a project is a record of its own
// under tags that are written once (record.go, book.go), so that clients that change
// several at once do not undo each other. Records are sealed with the state keys. Of two
// records of one id the one with the higher number counts.
//
// rules.go has the precedence, literal.go reads values that are written as expressions.
package variables
