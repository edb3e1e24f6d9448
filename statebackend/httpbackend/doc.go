// SPDX-License-Identifier: Apache-2.0

// Package httpbackend implements the protocol of backend "http" over state stores.
//
// # Routes
//
// Each state has one address, /state/{name}/{workspace}, since the protocol has no workspaces. Both
// segments are percent-decoded once.
//
//	GET     200 with the state, 204 when there never was one, 404 with the reason
//	        when the workspace was removed
//	POST    or PUT, 200; ?ID= names the lock under which the write happens
//	LOCK    200, or 423 with the holder's lock information as JSON
//	UNLOCK  200
//	DELETE  200; the versions stay until they are pruned
//
// Content-MD5 is verified if the client sends it, and sent with every state.
//
// # Repetition and replicas
//
// OpenTofu and Terraform repeat requests whose answer was lost. So LOCK with the same lock id, POST
// with the same bytes and UNLOCK of a lock that is gone are all answered 200. The handler keeps
// nothing between requests: Store.Resume finds locks, so each request may reach a different
// process.
//
// # Order of states
//
// A POST must have the lineage of the current state, in clear as is the serial even if OpenTofu
// encrypts, and a higher serial, or repeat the same bytes; ?force=true in the address skips the
// check.
//
// A write without a lock id takes the lock for this write alone: 423 while the workspace is locked.
// A write with an id whose lock was overtaken is refused with 409.
//
// The answer 423 shows the id of the lock. With a caller in the context of its request
// (statebackend.WithCaller), a lock is found only by the caller that took it: LOCK of another one
// with that id is answered 423, its writes and UNLOCK 403.
//
// "force-unlock" arrives as a body with only an ID from OpenTofu and as an empty body from
// Terraform. Both end the lock, if none is named the current one, with a forced tombstone.
//
// # Owners
//
// The state of an object of Kubernetes has one owner, named in the record of its workspace.
// [Server.For] serves the owner's run, and answers every other run 409. The list by which the lock
// was taken also shows the owner, so that this costs no request.
//
// Access is checked before this handler. A state is held in memory while it is read or written, up
// to MaxState bytes.
package httpbackend
