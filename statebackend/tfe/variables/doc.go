// SPDX-License-Identifier: Apache-2.0

// Package variables stores what decides about the runs of an organization: variables of workspaces,
// sets of variables, and settings of workspaces; and which variables a run gets.
//
// They are in a repository beside that of the states ([addr.RunsSuffix]), since the right to write
// states is not the right to decide what runs execute. Versions up to commit 6129cd06 kept them
// among the states ([Book.Former]); they are moved once, if an administrator says so.
//
// Each variable, set, use of a set by a workspace or a project, and a workspace's settings are a
// separate record under tags that are written once (record.go, book.go, write.go), so that clients
// that change several at once do not overwrite each other. Records are sealed with the state keys.
// Of two records of one id the one with the higher number counts.
//
// rules.go has the precedence; literal.go reads values that are written as expressions.
package variables
