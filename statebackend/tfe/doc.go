// SPDX-License-Identifier: Apache-2.0

// Package tfe implements the state part of the API tfe.v2, which the blocks `cloud` and `backend
// "remote"` of OpenTofu and Terraform use, over state stores.
//
// # Three rules
//
//  1. 404 only for a resource that certainly does not exist. The tools create a
//     workspace that is not found, and plan from nothing if there is no current state.
//  2. 5xx only for errors that may pass. The tools retry them for minutes, so permanent
//     errors (locking refused, a replica, the wrong key) are 4xx.
//  3. Every request may be repeated, and may reach any process. All that a process needs
//     is in the address or in the registry.
//
// # Names
//
// An organization is the NAME of a state, the one that /state/NAME/ has, and a workspace is one in
// it: one state and one lock behind several APIs. Tags, project (a label) and description of a
// workspace are its record beside the state ([statebackend.Record]). It exists if its record says
// so or if it has a state. Organizations need not be created.
//
// In a split organization each new workspace has a separate repository, with the NAME
// "ORGANIZATION.WORKSPACE". The record says whether, the configuration where (workspace_ref.go).
//
// # Command IDs
//
// The protocol has no lock id, and other servers distinguish clients by their user, which fails if
// all of CI has one token. But a command of either tool reads its workspace by name first and then
// uses the id in that answer. So that id contains a command ID, new in each answer and without any
// right, from which the lock's id is derived: a lock request can be repeated, an unlock ends only
// its own command's lock, and an overtaken run is distinguished from its successor. Scripts and
// providers, which store ids, get the stable id without one (id.go).
//
// For each request the id is parsed, in one spelling, then the right is checked, then anything is
// looked up, then the body is read.
//
// # Writing
//
// The tools announce a state and get an address for its bytes, which contains all decisions in
// signed form (upload.go). Refusals are made at the announcement where possible, since the tools
// show its errors. The order of states is that of statebackend/httpbackend.
//
// A second copy of the state, in clear even if OpenTofu encrypts it, is read and discarded.
//
// # Limits
//
// A held lock is answered with 409, although the tools then print their own message: at 423 they do
// not wait. A command ID has whole seconds, so a workspace that is deleted and created again within
// the second in which a command began is taken for the one that the command has read. Two scripts
// of one subject that lock at two replicas at the same time may both be told that they hold the
// lock; one of them is refused when it writes. A split organization lists the workspaces that have
// a record.
//
// # Alternatives considered
//
// Sessions in memory: another replica would not know them. The lock of a user, as on other servers:
// two runs with one token would hold it at once. Download addresses without token: they would end
// up in logs.
package tfe
