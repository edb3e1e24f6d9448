// SPDX-License-Identifier: Apache-2.0

// Package httpbackend speaks the protocol of backend "http" over state stores.
//
// # Routes
//
// One state has one address, /state/{name}/{workspace}. Both segments are
// percent-decoded once, so a workspace may contain any character. The protocol
// has no workspaces; the path carries them.
//
//	GET     200 with the state, 204 when there is none
//	POST    200; ?ID= names the lock under which the write happens
//	LOCK    200, or 423 with the holder's lock information as JSON
//	UNLOCK  200
//	DELETE  200; the versions stay until they are pruned
//
// Content-MD5 is checked when it is sent, and sent with every state.
//
// # Repetition and replicas
//
// OpenTofu and Terraform repeat requests whose answer was lost. LOCK with the
// same lock id, POST with the same bytes and UNLOCK of a lock that is gone are
// therefore all answered 200. The handler itself keeps nothing between
// requests: locks are found by Store.Resume, so a request may reach another
// process than the one before. A process that did not win the lock takes it
// over under the same id first, which is visible as a jump of the version
// numbers; sending one client to one process avoids that.
//
// # Order of states
//
// A POST must have the lineage of the current state and a higher serial, or be
// the same bytes again. Both fields are in clear even where OpenTofu encrypts
// the state. ?force=true in the address skips the check.
//
// A write without a lock id takes the lock for this write alone, and is
// refused with 423 while somebody holds it. A write with an id whose lock was
// overtaken is refused with 409.
//
// # Forced unlock
//
// "force-unlock" arrives as a body with only an ID from OpenTofu and as an
// empty body from Terraform. Both end the lock with a forced tombstone; the
// empty one ends whatever lock is held, since it names none.
//
// # Owners
//
// The state of an object of Kubernetes has one owner, whom the record of its workspace
// names. [Server.For] answers its run, and every other run 409, on each route. Who has
// taken the lock is known from the list by which it was taken, so that a run costs no
// more requests than that of anybody else.
//
// # Limits
//
// Access is decided before this handler. A state is held in memory while it is
// read or written, up to MaxState bytes.
package httpbackend
