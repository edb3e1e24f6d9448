// SPDX-License-Identifier: Apache-2.0

// Package tfe speaks the state part of the API tfe.v2, with which the blocks `cloud`
// and `backend "remote"` of OpenTofu and Terraform work, over state stores. The tools
// run where they are started; their states, locks and workspaces are in the registry.
//
// # Three rules
//
//  1. 404 only for what is surely not there. The tools create a workspace that is
//     not found, and plan from nothing where there is no current state.
//  2. 5xx only for what may pass. The tools repeat it for minutes, so what will not
//     pass (locking refused, a replica, the wrong key) is 4xx.
//  3. Every request may come twice, and to any process. What a process must know is
//     in the address or in the registry.
//
// # Names
//
// An organization is the NAME of a state, the one that /state/NAME/ has, and a
// workspace is a workspace in it: one state, several doors, one lock. What else is
// known of a workspace (tags, project, description) is its record beside the state
// ([statebackend.Record]). A workspace is there if its record says so, or if it has
// a state, and nothing makes an organization. A project is a label.
//
// Where an organization is split, each new workspace has a repository of its own,
// the NAME "ORGANIZATION.WORKSPACE"; the record says whether, the configuration says
// where. workspace_ref.go finds it.
//
// # Handles
//
// The protocol has no lock id: a request names a workspace, and servers tell clients
// apart by their user, which with one token for all of CI is no difference. But a
// command of either tool reads its workspace by name first and then uses the id of
// that answer for all that follows. So that id carries a handle which is new for each
// answer, and the id of the lock is made of it. Thereby a lock can be asked for
// twice, an unlock ends the lock of its own command only, and a run that was
// overtaken is distinguished from its successor, which the serial of its state would not do:
// the tools raise it at each attempt. A handle gives no right. Scripts and providers,
// which keep ids, get the stable id without one (id.go).
//
// An id is decoded in one spelling, then the right is decided, then anything is
// looked up, then the body is read.
//
// # Writing
//
// The tools announce a state and get an address for its bytes, which carries in a
// signed form all that was decided (upload.go). What can be refused is refused at the
// announcement, whose errors the tools show. The order of states is that of
// statebackend/httpbackend.
//
// A second copy of the state, which the tools send in clear even where OpenTofu
// encrypts, is read and forgotten.
//
// # Limits
//
// Held locks are answered 409, though the tools then show their own words: at 423
// they do not wait for the lock. A handle has whole seconds, so a workspace that is
// deleted and made again within the second in which a command began is taken for the
// one that the command has read. Two scripts of one subject that lock at two replicas
// in the same moment may both hear that they hold the lock; one of them is refused
// when it writes. A split organization lists the workspaces that have a record.
//
// # Alternatives considered
//
// Sessions in memory: another replica would not know them. The lock of a user, as
// other servers have it: two runs of one token would hold it at once. Addresses of
// states for download that need no token: they end in logs.
package tfe
