// SPDX-License-Identifier: Apache-2.0

// Package variables stores variables of workspaces, and sets of variables, in the
// repository of their organization, and decides which of them a run gets.
//
// Each variable, each set and each use of a set by a workspace or a project is a separate
// record under tags that are written once (record.go, book.go), so that clients that
// change several at once do not overwrite each other. Records are sealed with the state
// keys. Of two records of one id the one with the higher number counts.
//
// rules.go has the precedence; literal.go reads values that are written as expressions.
package variables
